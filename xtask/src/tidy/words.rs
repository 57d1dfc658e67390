//! One word per idea: the other words for it are refused, in names and in prose.

use super::Finding;
use super::tree::Tree;

/// What not to say, and what to say.
const REFUSED: &[(&str, &str)] = &[
    ("backend", "store"),  // tidy-allow: the rule itself
    ("provider", "store"), // tidy-allow: the rule itself
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.has_extension("rs") || file.has_extension("md")) {
        for (number, line) in file.lines() {
            for (refused, instead) in REFUSED {
                if words(line).any(|word| word.strip_suffix('s').unwrap_or(&word) == *refused) {
                    let message = format!("says `{refused}`: our word is `{instead}`");
                    findings.push(Finding::new(file, number, message));
                }
            }
        }
    }
    findings
}

/// The words of a line in lower case, those inside of `snake_case` and `CamelCase` names too.
fn words(line: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (was_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphabetic()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let found: Vec<_> = words("let my_Key2 = LockStore::NEW;").collect();
        assert_eq!(found, ["let", "my", "key", "lock", "store", "new"]);
    }

    #[test]
    fn refused_words_are_found_in_names_and_prose() {
        let lines = [
            "struct RedisBackend;",    // tidy-allow: a test of the rule
            "let backend_url = 1;",    // tidy-allow: a test of the rule
            "The Providers.",          // tidy-allow: a test of the rule
            "// provided, backending", // only whole words count
        ];
        let text = lines.join("\n");
        let files = [("a.rs", text.as_str()), ("a.toml", text.as_str())];
        assert_eq!(places(check, &files), ["a.rs:1", "a.rs:2", "a.rs:3"]);
    }
}
