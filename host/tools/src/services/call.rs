//! The id of a call, for its skill.

use patchbay_core::Digest;
use patchbay_sandbox::CallIdentity;

use super::CallServices;

impl CallIdentity for CallServices {
    fn call_id(&self) -> String {
        let (session, id, owner) = (self.record.context.hold.session(), self.record.id, &self.owner);
        // Hashed to hide the session from the skill; two skills cannot recognise one call either.
        let own = format!("call\n{session}\n{id}\n{}\n{}\n{}", owner.root.as_str(), owner.workspace, owner.name);
        Digest::of(own.as_bytes()).to_hex()
    }
}
