"""Run with `python -m unittest`: no sandbox, no build."""

import sys
import unittest

sys.path.insert(0, "sdk")  # The SDK is part of the project, and needs no installation.

import skill
from patchbay_sdk import Failure


class Hello(unittest.TestCase):
    def test_greets_by_name(self) -> None:
        self.assertEqual(skill.hello(name="Ada"), "Hello, Ada!")

    def test_refuses_a_blank_name(self) -> None:
        with self.assertRaises(Failure) as caught:
            skill.hello(name=" ")
        self.assertEqual(caught.exception.kind, "invalid-input")


if __name__ == "__main__":
    unittest.main()
