//! Who may do what: verbs on namespaces, and nothing that was not granted.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tenure_api::Code;

use crate::failure::Failure;

/// The name of whoever brings neither a token nor a certificate.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// What a caller wants to do in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Lock, renew and unlock; and see who holds a key while waiting for it.
    Acquire,
    /// See who holds a key that one can name.
    Read,
    /// See which keys are held, and the events.
    List,
    /// Take a lock from whoever holds it.
    Force,
    /// See what the server is made of: all its stores, and the metrics. What a store is worth is
    /// told to whoever may use it.
    Admin,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 5] = [Self::Acquire, Self::Read, Self::List, Self::Force, Self::Admin];

    /// Its name in the configuration and in the audit log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Read => "read",
            Self::List => "list",
            Self::Force => "force",
            Self::Admin => "admin",
        }
    }

    /// The verb of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Verbs on one namespace, or with `*` on every one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The namespace, or `*`.
    pub namespace: String,
    /// What may be done there.
    pub verbs: Vec<Verb>,
}

/// Someone who has proved who it is, or no one in particular.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the token or certificate, `anonymous` without either.
    pub name: Arc<str>,
    /// What it may do.
    pub grants: Arc<[Grants]>,
}

impl Identity {
    /// Someone who may do all of it, everywhere.
    #[must_use]
    pub fn unrestricted(name: &str) -> Self {
        let all = Grants { namespace: "*".to_owned(), verbs: Verb::ALL.to_vec() };
        Self { name: name.into(), grants: [all].into() }
    }

    /// Whether it may do this in that namespace. `*` asks for every namespace.
    #[must_use]
    pub fn may(&self, verb: Verb, namespace: &str) -> bool {
        self.grants.iter().any(|grant| {
            (grant.namespace == "*" || grant.namespace == namespace) && grant.verbs.contains(&verb)
        })
    }
}

/// Who calls, and from where.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who it is.
    pub identity: Identity,
    /// The address it calls from.
    pub peer: Option<IpAddr>,
}

impl Caller {
    /// Fails unless the caller may do this there. Without the right, what exists and what does not
    /// look the same.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn must(&self, verb: Verb, namespace: &str) -> Result<(), Failure> {
        if self.identity.may(verb, namespace) {
            return Ok(());
        }
        let text = format!("{} may not {verb} in namespace {namespace:?}", self.identity.name);
        Err(Failure::new(Code::Forbidden, text))
    }

    /// Fails unless the caller may do one of these there.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn must_one(&self, verbs: &[Verb], namespace: &str) -> Result<(), Failure> {
        if verbs.iter().any(|verb| self.identity.may(*verb, namespace)) {
            return Ok(());
        }
        let name = &self.identity.name;
        let text = format!("{name} may not {} in namespace {namespace:?}", listed(verbs));
        Err(Failure::new(Code::Forbidden, text))
    }

    /// Fails unless the caller may do one of these in some namespace.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn must_somewhere(&self, verbs: &[Verb]) -> Result<(), Failure> {
        let mut granted = self.identity.grants.iter().flat_map(|grant| &grant.verbs);
        if granted.any(|verb| verbs.contains(verb)) {
            return Ok(());
        }
        let text = format!("{} may not {} anywhere", self.identity.name, listed(verbs));
        Err(Failure::new(Code::Forbidden, text))
    }

    /// By whom limits per client are counted: by name, and without one by address.
    #[must_use]
    pub fn client(&self) -> String {
        match self.peer {
            Some(peer) if &*self.identity.name == ANONYMOUS => peer.to_string(),
            _ => self.identity.name.to_string(),
        }
    }
}

fn listed(verbs: &[Verb]) -> String {
    verbs.iter().map(|verb| verb.name()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_that_was_not_granted() {
        let grants = vec![Grants { namespace: "billing".into(), verbs: vec![Verb::Acquire] }];
        let identity = Identity { name: "b".into(), grants: grants.into() };
        assert!(identity.may(Verb::Acquire, "billing"));
        assert!(!identity.may(Verb::Read, "billing"));
        assert!(!identity.may(Verb::Acquire, "default"));
        assert!(!identity.may(Verb::Acquire, "*"));
        let caller = Caller { identity, peer: None };
        assert_eq!(caller.must(Verb::Force, "billing").unwrap_err().code, Code::Forbidden);
    }

    #[test]
    fn one_right_of_several_is_enough_where_it_is_granted() {
        let grants = vec![Grants { namespace: "a".into(), verbs: vec![Verb::Read] }];
        let identity = Identity { name: "r".into(), grants: grants.into() };
        let caller = Caller { identity, peer: None };
        assert!(caller.must_one(&[Verb::Acquire, Verb::Read], "a").is_ok());
        assert!(caller.must_one(&[Verb::Acquire, Verb::Read], "b").is_err());
        assert!(caller.must_one(&[Verb::Acquire, Verb::List], "a").is_err());
        assert!(caller.must_somewhere(&[Verb::Acquire, Verb::Read]).is_ok());
        assert!(caller.must_somewhere(&[Verb::Force]).is_err());
    }

    #[test]
    fn the_star_is_every_namespace() {
        let identity = Identity::unrestricted("root");
        assert!(Verb::ALL.into_iter().all(|verb| identity.may(verb, "any")));
    }
}
