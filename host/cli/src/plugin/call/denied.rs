//! Answers every question with no, and records the denied acts, which `call` prints.

use std::{future::ready, pin::Pin};

use parking_lot::Mutex;
use patchbay_session::{Approval, Approver, PersonAnswer, Question, QuestionSubject};

/// Limit of the recorded denials.
const NOTED: usize = 100;

/// An act of a tool that was denied.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(in crate::plugin) struct Denied {
    /// The denied skill: the called skill, or a skill that it called.
    pub(in crate::plugin) skill: String,
    /// The capability that would allow the act.
    pub(in crate::plugin) capability: String,
    /// The denied act, worded as a permission question.
    pub(in crate::plugin) act: String,
}

#[derive(Default)]
pub(in crate::plugin) struct DenyingApprover(Mutex<Vec<Denied>>);

impl DenyingApprover {
    /// Returns the denied acts in their order.
    pub(in crate::plugin) fn take(&self) -> Vec<Denied> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Approver for DenyingApprover {
    fn approve(&self, question: Question) -> Pin<Box<dyn Future<Output = PersonAnswer> + Send + '_>> {
        if let QuestionSubject::Capability(asked) = question.subject {
            let mut denied = self.0.lock();
            if denied.len() < NOTED {
                denied.push(Denied {
                    skill: asked.skill.name.to_string(),
                    capability: asked.offered.to_string(),
                    act: asked.act.title,
                });
            }
        }
        Box::pin(ready(Approval::No.into()))
    }
}
