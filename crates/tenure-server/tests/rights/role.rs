//! Who calls, and what that allows.

use sha2::{Digest, Sha256};
use tenure_server::Verb;

/// Where rights are granted: in the namespace that is asked for, in another, in every one.
const SCOPES: [&str; 3] = ["default", "other", "*"];

/// A token with verbs on a namespace. It is its own name.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) token: String,
    verbs: Vec<Verb>,
    scope: &'static str,
}

impl Role {
    /// Nothing, each verb alone, and all of them: in every scope.
    pub(crate) fn all() -> Vec<Self> {
        let mut sets = vec![("none", Vec::new()), ("all", Verb::ALL.to_vec())];
        sets.extend(Verb::ALL.map(|verb| (verb.name(), vec![verb])));
        let role = |scope: &'static str, name: &str, verbs: &[Verb]| Self {
            token: format!("{name}-in-{scope}"),
            verbs: verbs.to_vec(),
            scope,
        };
        let in_scope = |scope| sets.iter().map(move |(name, verbs)| role(scope, name, verbs));
        SCOPES.into_iter().flat_map(in_scope).collect()
    }

    /// The token as the configuration has it.
    pub(crate) fn config(&self) -> String {
        let hex: String =
            Sha256::digest(&self.token).iter().map(|byte| format!("{byte:02x}")).collect();
        let verbs = self.verbs.iter().map(|verb| format!("'{verb}'")).collect::<Vec<_>>().join(",");
        let Self { token, scope, .. } = self;
        format!(
            "[[tokens]]\nname = '{token}'\nsha256 = '{hex}'\ngrants = [{{ namespace = '{scope}', \
             verbs = [{verbs}] }}]\n"
        )
    }

    /// Whether it has one of these verbs.
    fn has(&self, verbs: &[Verb]) -> bool {
        verbs.iter().any(|verb| self.verbs.contains(verb))
    }
}

/// What a call needs of its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// Not even a token.
    Nothing,
    /// One of these in the namespace that it names.
    Here(&'static [Verb]),
    /// One of these in some namespace.
    Somewhere(&'static [Verb]),
    /// One of these in every namespace.
    Everywhere(&'static [Verb]),
}

impl Needs {
    /// Whether a role may make the call in a namespace.
    pub(crate) fn allow(self, role: &Role, namespace: &str) -> bool {
        match self {
            Self::Nothing => true,
            Self::Here(verbs) => role.has(verbs) && (role.scope == "*" || role.scope == namespace),
            Self::Somewhere(verbs) => role.has(verbs),
            Self::Everywhere(verbs) => role.has(verbs) && role.scope == "*",
        }
    }
}
