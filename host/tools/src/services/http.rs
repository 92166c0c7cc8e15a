//! Requests of skills: checks the permit, looks up the credentials, and sends through egress.
use patchbay_core::{Name, text};
use patchbay_egress::{
    CheckedTarget, Credential, CredentialError, EgressError, Placed, Placement, PlacementError, Request, Target,
};
use patchbay_policy::{Capability, Denial, HostPattern, Permits};
use patchbay_sandbox::{Auth, Fault, Http, HttpFuture, HttpRequest, HttpResponse, RequestedPlacement};

use super::{CallServices, NOT_RECORDED};

impl Http for CallServices {
    fn check(&self, url: &str, auth: &[Auth], permits: &Permits) -> Result<(), Fault> {
        target(url, permits)?;
        // An invalid credential name is rejected by `send`.
        for name in auth.iter().filter_map(|auth| auth.credential.parse().ok()) {
            permits.check(&Capability::Credential(name))?;
        }
        Ok(())
    }

    fn send<'a>(&'a self, request: HttpRequest, permits: &'a Permits) -> HttpFuture<'a> {
        Box::pin(async move {
            let (target, rule) = target(&request.url, permits)?;
            let mut used = vec![Capability::Http(rule)];
            let mut secrets = Vec::with_capacity(request.auth.len());
            for auth in request.auth {
                let (placed, capability) = self.place(auth, permits).await?;
                if let Capability::Credential(name) = &capability
                    && used.contains(&capability)
                {
                    return Err(misplaced(&PlacementError::Twice { name: name.clone() }));
                }
                secrets.push(placed);
                used.push(capability);
            }
            let scrub = self.tools.credentials.secrets().scrub(target.origin()).await;
            let has_effect = !matches!(&*request.method, "GET" | "HEAD" | "OPTIONS");
            let mut request = Request {
                method: request.method,
                headers: request.headers,
                body: request.body.unwrap_or_default().into(),
                timeout: Some(request.timeout),
                secrets,
                scrub,
                ..Request::get(self.owner.to_string(), target)
            };
            if has_effect && !self.begin_effect().await {
                return Err(Fault::Failed { kind: "failed".to_owned(), message: NOT_RECORDED.to_owned() });
            }
            let mut answer = self.tools.egress.send(request.clone()).await.map_err(refused)?;
            if answer.status == 401 && self.renew(&mut request, &used).await? {
                answer = self.tools.egress.send(request).await.map_err(refused)?;
            }
            Ok((HttpResponse { status: answer.status, headers: answer.headers, body: answer.body }, used))
        })
    }
}

impl CallServices {
    /// Returns the secret of a credential that the skill may use, with its placement in the request.
    async fn place(&self, auth: Auth, permits: &Permits) -> Result<(Placed, Capability), Fault> {
        let name: Name = auth.credential.parse().map_err(|_| Fault::Failed {
            kind: "invalid".to_owned(),
            message: format!("'{}' is not a valid credential name", text::excerpt(&auth.credential, 80)),
        })?;
        let capability = Capability::Credential(name.clone());
        permits.check(&capability)?;
        let placement = match auth.placement {
            RequestedPlacement::Header { name, prefix } => Placement::Header { name, prefix },
            RequestedPlacement::Query(name) => Placement::Query(name),
        };
        let credentials = &self.tools.credentials;
        let config = credentials.config(&name).map_err(missing)?;
        config.check(&name, &placement).map_err(|error| misplaced(&error))?;
        let Credential { origin, secret } = credentials.get(&name).await.map_err(missing)?;
        Ok((Placed { secret, placement, origin }, capability))
    }

    /// Replaces the secrets of a request that a server rejected with status 401, which means that nothing was done. Returns whether
    /// a secret was replaced. Only key commands can return a different one, and each is run once more.
    async fn renew(&self, request: &mut Request, used: &[Capability]) -> Result<bool, Fault> {
        let mut is_renewed = false;
        let credentials = &self.tools.credentials;
        let names = used.iter().filter_map(|capability| match capability {
            Capability::Credential(name) => Some(name),
            _ => None,
        });
        for (placed, name) in request.secrets.iter_mut().zip(names) {
            if let Some(secret) = credentials.renew(name, &placed.secret).await.map_err(missing)? {
                placed.secret = secret;
                is_renewed = true;
            }
        }
        if is_renewed {
            request.scrub = credentials.secrets().scrub(request.target.origin()).await;
        }
        Ok(is_renewed)
    }
}

/// Parses a URL and finds the permit for it.
fn target(url: &str, permits: &Permits) -> Result<(CheckedTarget, HostPattern), Fault> {
    let target = Target::parse(url).map_err(|error| refused(error.into()))?;
    let origin = target.origin();
    let rule = permits.check_http(origin.host(), origin.port(), origin.is_default_port())?;
    Ok((target.allow(rule.clone()).map_err(refused)?, rule))
}

fn misplaced(error: &PlacementError) -> Fault {
    Denial::Placement { message: error.to_string() }.into()
}

fn refused(error: EgressError) -> Fault {
    Fault::Failed { kind: error.kind().to_owned(), message: error.to_string() }
}

fn missing(error: CredentialError) -> Fault {
    Fault::Failed { kind: error.kind().to_owned(), message: error.for_plugin() }
}
