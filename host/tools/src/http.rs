//! A skill's requests: each shown to the policy first, its credentials looked up by the host, then sent by egress.

use patchbay_core::{Name, text};
use patchbay_egress::{Credential, CredentialError, EgressError, Placed, Placement, Request, Target};
use patchbay_policy::{Capability, Permits};
use patchbay_sandbox::{Auth, BoxFuture, Fault, Http, HttpRequest, HttpResponse, Placement as AskedPlacement};

use crate::side::Side;

impl Http for Side {
    fn send<'a>(
        &'a self,
        request: HttpRequest,
        permits: &'a Permits,
    ) -> BoxFuture<'a, Result<(HttpResponse, Vec<Capability>), Fault>> {
        Box::pin(async move {
            let target = Target::parse(&request.url).map_err(|error| refused(error.into()))?;
            let origin = target.origin();
            let rule = permits.check_http(origin.host(), origin.port(), origin.is_default_port())?;
            let target = target.allow(rule.clone()).map_err(refused)?;
            let mut used = vec![Capability::Http(rule)];
            let mut secrets = Vec::with_capacity(request.auth.len());
            for auth in request.auth {
                let (placed, capability) = self.place(auth, permits)?;
                secrets.push(placed);
                used.push(capability);
            }
            let request = Request {
                owner: self.owner.to_string(),
                method: request.method,
                target,
                headers: request.headers,
                body: request.body.unwrap_or_default().into(),
                timeout: Some(request.timeout),
                secrets,
            };
            let answer = self.tools.egress.send(request).await.map_err(refused)?;
            Ok((HttpResponse { status: answer.status, headers: answer.headers, body: answer.body }, used))
        })
    }
}

impl Side {
    /// The secret of a credential that the skill names and may use, and where it goes.
    fn place(&self, auth: Auth, permits: &Permits) -> Result<(Placed, Capability), Fault> {
        let name: Name = auth.credential.parse().map_err(|_| Fault::Failed {
            kind: "invalid".to_owned(),
            message: format!("'{}' is no credential's name", text::excerpt(&auth.credential, 80)),
        })?;
        let capability = Capability::Credential(name.clone());
        permits.check(&capability)?;
        let Credential { origin, secret } = self.tools.credentials.get(&name).map_err(missing)?;
        let placement = match auth.placement {
            AskedPlacement::Header { name, prefix } => Placement::Header { name, prefix },
            AskedPlacement::Query(name) => Placement::Query(name),
        };
        Ok((Placed { secret, placement, origin }, capability))
    }
}

fn refused(error: EgressError) -> Fault {
    Fault::Failed { kind: error.kind().to_owned(), message: error.to_string() }
}

fn missing(error: CredentialError) -> Fault {
    Fault::Failed { kind: error.kind().to_owned(), message: error.to_string() }
}
