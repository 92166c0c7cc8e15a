//go:build ignore

// Copies the description of the contract from the generated bindings into a module: `go run embed.go MODULE BINDINGS.o OUT`.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := embed(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func embed(modulePath, bindingsPath, out string) error {
	module, err := os.ReadFile(modulePath)
	if err != nil {
		return err
	}
	object, err := os.ReadFile(bindingsPath)
	if err != nil {
		return err
	}
	section, err := contract(object)
	if err != nil {
		return fmt.Errorf("%s: %w", bindingsPath, err)
	}
	return os.WriteFile(out, append(module, section...), 0o644)
}

// Returns the custom section whose name begins with "component-type", header included.
func contract(object []byte) ([]byte, error) {
	const header = 8
	for at := header; at < len(object); {
		size, n := binary.Uvarint(object[at+1:])
		start := at + 1 + n
		end := start + int(size)
		if n <= 0 || end > len(object) {
			return nil, fmt.Errorf("not a WebAssembly object file")
		}
		length, m := binary.Uvarint(object[start:end])
		if object[at] == 0 && m > 0 && strings.HasPrefix(string(object[start+m:start+m+int(length)]), "component-type") {
			return object[at:end], nil
		}
		at = end
	}
	return nil, fmt.Errorf("it does not describe a contract")
}
