//! The door that every request comes through: it finds out who calls.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Extension, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tenure_api::Code;

use crate::access::{ANONYMOUS, Caller, Grants, Identity};
use crate::api::Api;
use crate::failure::Failure;
use crate::grpc::status_of;
use crate::host::{check_host, check_origin};
use crate::whole::drain;

/// The header that Dapr's clients send their token in.
pub(crate) const DAPR_TOKEN: &str = "dapr-api-token";

/// A bearer token as the server knows it: never the token itself.
#[derive(Clone)]
pub struct Token {
    /// Who has it.
    pub name: String,
    /// The SHA-256 of the token.
    pub digest: [u8; 32],
    /// What it allows.
    pub grants: Vec<Grants>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Who is let in.
#[derive(Clone, Debug, Default)]
pub struct Guests {
    /// Whoever brings neither a token nor a certificate; `None` turns them away.
    pub anonymous: Option<Identity>,
    /// Whoever brings one of these tokens.
    pub tokens: Vec<Token>,
    /// Whoever brings a certificate with one of these names.
    pub certificates: Vec<Identity>,
    /// Names of this server, for callers without a token or a certificate.
    pub hosts: Vec<String>,
}

/// Knows who is let in. The list can be replaced while the server runs.
#[derive(Debug)]
pub struct Door(RwLock<Arc<Guests>>);

impl Door {
    /// A door for these guests.
    #[must_use]
    pub fn new(guests: Guests) -> Self {
        Self(RwLock::new(Arc::new(guests)))
    }

    /// Lets these in from now on, and no others.
    pub fn replace(&self, guests: Guests) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(guests);
    }

    /// Whether everybody may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let all = Identity::unrestricted(ANONYMOUS);
        self.guests().anonymous.as_ref().is_some_and(|anyone| anyone.grants == all.grants)
    }

    /// Who brings these headers, and a certificate with these names.
    ///
    /// A browser shows a certificate, and calls where it can, for whichever page asks it to. So
    /// without a token the page must be of this server, and without a certificate the server must
    /// have been called by a name that nobody else can point to it.
    ///
    /// # Errors
    /// `Unauthenticated`; `Forbidden` for a browser on behalf of a page of another host.
    pub fn identify(&self, headers: &HeaderMap, names: &[String]) -> Result<Identity, Failure> {
        let token = bearer_of(headers).or_else(|| dapr_token_of(headers));
        self.identify_by(token, headers, names)
    }

    /// As [`identify`](Self::identify), but the token is the one in Dapr's header, if there is one:
    /// Dapr looks at no other, and `Authorization` may be for whoever stands behind it.
    pub(crate) fn identify_for_dapr(
        &self,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Identity, Failure> {
        let token = dapr_token_of(headers).or_else(|| bearer_of(headers));
        self.identify_by(token, headers, names)
    }

    fn identify_by(
        &self,
        token: Option<&str>,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Identity, Failure> {
        let guests = self.guests();
        if let Some(token) = token {
            return guests.by_token(token);
        }
        let by_name =
            guests.certificates.iter().find(|guest| names.iter().any(|n| **n == *guest.name));
        let known = by_name.or(guests.anonymous.as_ref()).cloned();
        let known = known.ok_or_else(|| {
            Failure::new(Code::Unauthenticated, "a token or a certificate is needed")
        })?;
        check_origin(headers)?;
        if by_name.is_none() {
            check_host(headers, &guests.hosts)?;
        }
        Ok(known)
    }

    fn guests(&self) -> Arc<Guests> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Guests {
    fn by_token(&self, token: &str) -> Result<Identity, Failure> {
        let digest = Sha256::digest(token.as_bytes());
        // All of them are compared, so that the time tells nothing.
        let mut found = None;
        for token in &self.tokens {
            if bool::from(digest.as_slice().ct_eq(&token.digest)) {
                found = Some(token);
            }
        }
        let Some(token) = found else {
            return Err(Failure::new(Code::Unauthenticated, "the token is not known here"));
        };
        Ok(Identity { name: (&*token.name).into(), grants: token.grants.clone().into() })
    }
}

fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn dapr_token_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(DAPR_TOKEN)?.to_str().ok().filter(|token| !token.is_empty())
}

/// Where a connection comes from, and the names in its certificate.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) names: Arc<[String]>,
}

/// Someone who stays for longer than one request, and may be let in no longer.
pub(crate) struct Visitor {
    door: Arc<Door>,
    headers: HeaderMap,
    peer: Peer,
}

impl Visitor {
    /// Whoever came with these headers.
    pub(crate) fn new(door: Arc<Door>, headers: HeaderMap, peer: Peer) -> Self {
        Self { door, headers, peer }
    }

    /// Who it is now.
    pub(crate) fn caller(&self) -> Result<Caller, Failure> {
        let identity = self.door.identify(&self.headers, &self.peer.names)?;
        Ok(Caller { identity, peer: Some(self.peer.address.ip()) })
    }

    /// Where it calls from.
    pub(crate) fn address(&self) -> IpAddr {
        self.peer.address.ip()
    }
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Lets a request in with its caller beside it, or turns it away in the words of its protocol.
pub(crate) async fn enter(
    State((door, api)): State<(Arc<Door>, Arc<Api>)>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match door.identify(request.headers(), &peer.names) {
        Ok(identity) => {
            let peer = Some(peer.address.ip());
            request.extensions_mut().insert(Caller { identity, peer });
            next.run(request).await
        }
        Err(failure) => {
            api.turned_away(peer.address.ip(), &failure);
            let answer = refusal(failure, request.headers());
            drain(request).await;
            answer
        }
    }
}

/// A failure in the words of the protocol that was asked in.
pub(crate) fn refusal(failure: Failure, headers: &HeaderMap) -> Response {
    if is_grpc(headers) {
        return status_of(failure).into_http::<axum::body::Body>();
    }
    failure.into_response()
}

/// Whether a request is a call by gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::access::Verb;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    fn door() -> Door {
        let grants = vec![Grants { namespace: "a".into(), verbs: vec![Verb::Read] }];
        let digest = Sha256::digest("s3cret").into();
        let token = Token { name: "reader".into(), digest, grants };
        let certificate = Identity { name: "spiffe://x/a".into(), grants: [].into() };
        let (tokens, certificates) = (vec![token], vec![certificate]);
        Door::new(Guests { tokens, certificates, ..Guests::default() })
    }

    #[test]
    fn a_token_is_known_by_its_digest_in_either_header() {
        for (name, value) in [
            ("authorization", "Bearer s3cret"),
            ("authorization", "bearer  s3cret"),
            ("dapr-api-token", "s3cret"),
        ] {
            let identity = door().identify(&headers(name, value), &[]).unwrap();
            assert_eq!(&*identity.name, "reader");
        }
    }

    #[test]
    fn of_two_tokens_dapr_looks_at_its_own() {
        let mut both = headers("authorization", "Bearer of-the-application");
        both.extend(headers("dapr-api-token", "s3cret"));
        assert_eq!(&*door().identify_for_dapr(&both, &[]).unwrap().name, "reader");
        assert!(door().identify(&both, &[]).is_err());
        let mut both = headers("authorization", "Bearer s3cret");
        both.extend(headers("dapr-api-token", "wrong"));
        assert!(door().identify_for_dapr(&both, &[]).is_err());
        assert!(door().identify_for_dapr(&headers("authorization", "Bearer s3cret"), &[]).is_ok());
    }

    #[test]
    fn everyone_else_is_turned_away() {
        for (name, value) in
            [("authorization", "Bearer wrong"), ("authorization", "Basic s3cret"), ("x", "y")]
        {
            let failure = door().identify(&headers(name, value), &[]).unwrap_err();
            assert_eq!(failure.code, Code::Unauthenticated);
            assert!(!failure.message.contains("wrong"));
        }
    }

    #[test]
    fn a_certificate_is_known_by_a_name_in_it() {
        let none = HeaderMap::new();
        let names = ["b.example".to_owned(), "spiffe://x/a".to_owned()];
        assert_eq!(&*door().identify(&none, &names).unwrap().name, "spiffe://x/a");
        assert!(door().identify(&none, &names[..1]).is_err());
    }

    #[test]
    fn the_list_can_be_replaced() {
        let door = door();
        door.replace(Guests::default());
        assert!(door.identify(&headers("authorization", "Bearer s3cret"), &[]).is_err());
    }
}
