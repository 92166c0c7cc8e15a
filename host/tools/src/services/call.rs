//! The id of a call, for its skill.

use patchbay_core::Digest;
use patchbay_sandbox::CallIdentity;

use super::CallServices;

impl CallIdentity for CallServices {
    fn call_id(&self) -> String {
        let (session, id, owner) = (self.record.context.hold.session(), self.record.id, &self.owner);
        // Hashed, so that the skill cannot learn the session, and two skills cannot recognise one call.
        let own = format!("call\n{session}\n{id}\n{}\n{}\n{}", owner.root.as_str(), owner.workspace, owner.name);
        Digest::of(own.as_bytes()).to_hex()
    }
}
