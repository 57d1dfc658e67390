//! A reader of Rust source that knows just enough: what is code, comment or literal, and where
//! functions begin and end.

/// One Rust file, read.
#[derive(Debug)]
pub(super) struct Source {
    /// The text with every comment and the inside of every literal replaced by spaces.
    masked: Vec<char>,
    /// For each line, whether it holds more than blanks and comments.
    is_code: Vec<bool>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Of the word `fn`, from 1.
    pub(super) first_line: usize,
    /// Of the closing brace.
    pub(super) last_line: usize,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut reader = Reader {
            text: text.chars().collect(),
            at: 0,
            source: Self { masked: Vec::new(), is_code: vec![false] },
        };
        reader.read_all();
        reader.source
    }

    /// Lines that hold code.
    pub(super) fn code_lines(&self) -> usize {
        self.is_code.iter().filter(|is_code| **is_code).count()
    }

    /// Lines that hold code and belong to no test module at the end of the file.
    pub(super) fn code_lines_without_tests(&self) -> usize {
        let end = self.test_module_line().unwrap_or(self.is_code.len());
        self.is_code[..end].iter().filter(|is_code| **is_code).count()
    }

    /// Every word of the code that could be a name; keywords are among them.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        self.masked
            .split(|c| !is_word(*c))
            .filter(|word| word.first().is_some_and(|c| !c.is_ascii_digit()))
            .map(|word| word.iter().collect())
    }

    /// Every function that has a body, nested ones too.
    pub(super) fn functions(&self) -> Vec<Function> {
        let code = &self.masked;
        let mut functions = Vec::new();
        let mut line = 1;
        for at in 0..code.len() {
            if code[at] == '\n' {
                line += 1;
            }
            let Some(name) = self.function_name(at) else { continue };
            if let Some(end) = self.body_end(at) {
                let lines_inside = code[at..end].iter().filter(|c| **c == '\n').count();
                functions.push(Function { name, first_line: line, last_line: line + lines_inside });
            }
        }
        functions
    }

    /// The name of the function whose `fn` stands at `at`. A function pointer type has none.
    fn function_name(&self, at: usize) -> Option<String> {
        let rest = self.masked[at..].strip_prefix(&['f', 'n'])?;
        let is_inside_word = at > 0 && (is_word(self.masked[at - 1]) || self.masked[at - 1] == '#');
        if is_inside_word || !rest.first()?.is_whitespace() {
            return None;
        }
        let name: String =
            rest.iter().skip_while(|c| c.is_whitespace()).take_while(|c| is_word(**c)).collect();
        (!name.is_empty()).then_some(name)
    }

    /// Where the body of the function at `at` closes; a declaration without a body has no such.
    fn body_end(&self, at: usize) -> Option<usize> {
        // Inside of brackets a `;` belongs to an array type.
        let mut open_brackets = 0usize;
        let mut open_braces = 0usize;
        for (offset, c) in self.masked[at..].iter().enumerate() {
            match c {
                '(' | '[' if open_braces == 0 => open_brackets += 1,
                ')' | ']' if open_braces == 0 => open_brackets = open_brackets.saturating_sub(1),
                ';' if open_braces == 0 && open_brackets == 0 => return None,
                '{' => open_braces += 1,
                '}' if open_braces <= 1 => return (open_braces == 1).then_some(at + offset),
                '}' => open_braces -= 1,
                _ => {}
            }
        }
        None
    }

    /// The line, from 0, of a `#[cfg(test)]` that opens a module: it and what follows are tests.
    fn test_module_line(&self) -> Option<usize> {
        let code: String = self.masked.iter().collect();
        let lines: Vec<&str> = code.lines().collect();
        (0..lines.len()).find(|line| {
            let mut below = lines[line + 1..].iter().map(|line| line.trim());
            let item = below.find(|line| !line.is_empty() && !line.starts_with("#["));
            lines[*line].starts_with("#[cfg(test)]")
                && item.is_some_and(|item| item.contains("mod ") && item.ends_with('{'))
        })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Reader {
    text: Vec<char>,
    at: usize,
    source: Source,
}

impl Reader {
    fn read_all(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                '\'' if self.is_char_literal() => self.char_literal(),
                'r' | 'b' | 'c' if !self.is_inside_word() => self.maybe_raw_string(),
                _ => self.code(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn is_inside_word(&self) -> bool {
        self.at > 0 && is_word(self.text[self.at - 1])
    }

    fn code(&mut self) {
        self.step(true, true);
    }

    fn literal(&mut self) {
        self.step(false, true);
    }

    fn comment(&mut self) {
        self.step(false, false);
    }

    /// Takes one character.
    fn step(&mut self, is_shown: bool, is_code: bool) {
        let Some(c) = self.peek(0) else { return };
        self.at += 1;
        self.source.masked.push(if is_shown || c == '\n' { c } else { ' ' });
        if c == '\n' {
            self.source.is_code.push(false);
        } else if is_code
            && !c.is_whitespace()
            && let Some(line) = self.source.is_code.last_mut()
        {
            *line = true;
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.comment();
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.comment();
                    continue;
                }
            }
            self.comment();
            self.comment();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.quoted('"');
    }

    fn char_literal(&mut self) {
        self.quoted('\'');
    }

    fn quoted(&mut self, quote: char) {
        self.code();
        while let Some(c) = self.peek(0) {
            if c == quote {
                return self.code();
            }
            if c == '\\' {
                self.literal();
            }
            self.literal();
        }
    }

    /// A quote opens a literal, or a lifetime or a loop label, which nothing closes.
    fn is_char_literal(&self) -> bool {
        self.peek(1) == Some('\\') || self.peek(2) == Some('\'')
    }

    /// At `r`, `b` or `c`: `r"`, `br#"` and the like open a raw string; `r#type` is a name.
    fn maybe_raw_string(&mut self) {
        let mut ahead = usize::from(self.peek(0) != Some('r'));
        if self.peek(ahead) != Some('r') {
            return self.code();
        }
        ahead += 1;
        let first_hash = ahead;
        while self.peek(ahead) == Some('#') {
            ahead += 1;
        }
        if self.peek(ahead) != Some('"') {
            return self.code();
        }
        let hashes = ahead - first_hash;
        for _ in 0..=ahead {
            self.code();
        }
        while self.at < self.text.len() && !self.is_raw_end(hashes) {
            self.literal();
        }
        for _ in 0..=hashes {
            self.code();
        }
    }

    fn is_raw_end(&self, hashes: usize) -> bool {
        self.peek(0) == Some('"') && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The masked text with every run of blanks as one space.
    fn masked(text: &str) -> String {
        let masked: String = Source::read(text).masked.iter().collect();
        assert_eq!(masked.chars().count(), text.chars().count(), "{text}");
        masked.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn lengths(text: &str) -> Vec<(String, usize)> {
        let functions = Source::read(text).functions();
        functions.into_iter().map(|f| (f.name, f.last_line - f.first_line + 1)).collect()
    }

    #[test]
    fn comments_and_literals_are_masked() {
        for (text, expected) in [
            ("a // { b\nc", "a c"),
            ("a /* { /* } */ { */ b", "a b"),
            (r#"f("{ \" // {", x)"#, r#"f(" ", x)"#),
            (r#""\\" {"#, r#"" " {"#),
            (r"b'{' + '\'' + '\u{7d}'", "b' ' + ' ' + ' '"),
            (r#"b"{" c"{" }"#, r#"b" " c" " }"#),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn raw_strings_end_at_as_many_hashes() {
        for (text, expected) in [
            (r###"r#"{ "x" "# }"###, r###"r#" "# }"###),
            (r####"br##"{"# "## }"####, r####"br##" "## }"####),
            (r#"r"\" {"#, r#"r" " {"#),
            (r#"r#type { bar"{" }"#, r#"r#type { bar" " }"#),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn lifetimes_and_labels_open_nothing() {
        for text in ["fn f<'a, 'b>(x: &'a str) { x }", "'outer: loop { break 'outer; }"] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn an_open_literal_at_the_end_is_no_trouble() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'\\", "\"\\", "r", "br#"] {
            masked(text);
        }
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text = r#"impl X {
            /// Doc.
            pub fn a(
                &self,
            ) -> [u8; 2] {
                fn inner() {
                }
                "}";
            }
        }"#;
        assert_eq!(lengths(text), [("a".to_owned(), 7), ("inner".to_owned(), 2)]);
    }

    #[test]
    fn declarations_and_pointer_types_have_no_body() {
        let text = "trait T { fn a(&self); }\ntype F = fn(u8) -> u8;\nlet x: fn() = y; { z }\n";
        assert_eq!(lengths(text), []);
        assert_eq!(lengths("extern crate fnord; fn a() {}"), [("a".to_owned(), 1)]);
    }

    #[test]
    fn code_lines_are_neither_blank_nor_comment_nor_test() {
        let text = "//! Doc.\n\nuse a; // why\n/* b\n c */\nconst S: &str = \"\n  // text\n\";\n\
                    #[cfg(test)]\nmod tests {\n    use a;\n}\n";
        assert_eq!(Source::read(text).code_lines_without_tests(), 4);
    }

    #[test]
    fn only_an_inline_test_module_ends_the_count() {
        let text = "#[cfg(test)]\nuse a;\n#[cfg(test)]\nmod tests;\nfn b() {}\n";
        assert_eq!(Source::read(text).code_lines_without_tests(), 5);
        let text = "use a;\n#[cfg(test)]\n#[path = \"x\"]\npub(crate) mod tests {\n}\n";
        assert_eq!(Source::read(text).code_lines_without_tests(), 1);
    }
}
