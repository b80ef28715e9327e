//! The files of the repository, each read once; Rust as tokens, comments and functions.

use proc_macro2::{Delimiter, Group, Literal, Spacing, Span, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Lit, Signature, TraitItemFn};

/// A file of the repository that is text.
pub(super) struct Document {
    /// Relative to the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
    source: OnceLock<Source>,
}

impl Document {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), source: OnceLock::new() }
    }

    /// The file as Rust, which it is by its name.
    pub(super) fn source(&self) -> &Source {
        self.source.get_or_init(|| Source::parse(&self.path, &self.text))
    }
}

/// All of them, sorted by path.
pub(super) fn documents() -> &'static [Document] {
    static DOCUMENTS: OnceLock<Vec<Document>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let mut documents = Vec::new();
        add_documents(&root(), &mut documents);
        documents.sort_by(|one, other| one.path.cmp(&other.path));
        documents
    })
}

pub(super) fn document(path: &str) -> Option<&'static Document> {
    documents().iter().find(|document| document.path == path)
}

/// Not the folders in [`SKIPPED`], nor data that is not UTF-8.
fn add_documents(directory: &Path, documents: &mut Vec<Document>) {
    for entry in fs::read_dir(directory).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if SKIPPED.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if kind.is_dir() {
            add_documents(&path, documents);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            documents.push(Document::new(path.strip_prefix(root()).unwrap().to_str().unwrap(), &text));
        }
    }
}

/// Created by git, cargo and the instructions in the README.
const SKIPPED: [&str; 3] = [".git", "target", ".venv"];

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A Rust file, parsed.
pub(super) struct Source {
    pub(super) path: String,
    tokens: Vec<Token>,
    /// Each line of a comment, with its number.
    pub(super) comments: Vec<(usize, String)>,
    functions: Vec<Function>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// For a string, its value.
    pub(super) text: String,
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// Not behind `#[cfg(test)]`.
    in_production: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Text,
    Other,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    /// From its signature to its last brace.
    pub(super) lines: usize,
    first_line: usize,
    is_test: bool,
}

/// The Rust files in this folder.
pub(super) fn sources(folder: &str) -> impl Iterator<Item = &'static Source> {
    let is_here = move |path: &str| path.starts_with(folder) && path.ends_with(".rs");
    documents().iter().filter(move |document| is_here(&document.path)).map(Document::source)
}

/// The files that the server is built from.
pub(super) fn program() -> impl Iterator<Item = &'static Source> {
    // `mod tests;` is behind #[cfg(test)] where it is declared.
    sources("src/").filter(|source| !source.path.ends_with("/tests.rs"))
}

impl Source {
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut reader = Reader::default();
        reader.read(stream, true);
        let mut functions = Functions::default();
        functions.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}")));
        let comments = reader.comments(text);
        Self { path: path.to_owned(), tokens: reader.tokens, comments, functions: functions.0 }
    }

    /// All tokens, those of tests included; documentation is not among them.
    pub(super) fn all_tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The tokens of the program.
    pub(super) fn tokens(&self) -> Vec<&Token> {
        self.tokens.iter().filter(|token| token.in_production).collect()
    }

    /// Its path below `src/`.
    pub(super) fn path_below_src(&self) -> &str {
        self.path.strip_prefix("src/").unwrap_or(&self.path)
    }

    /// Whether it is this file, or below this folder (`http/`).
    pub(super) fn is_in(&self, home: &str) -> bool {
        if home.ends_with('/') {
            self.path_below_src().starts_with(home)
        } else {
            self.path_below_src() == home
        }
    }

    /// The first part of its module path.
    pub(super) fn module(&self) -> &str {
        self.path_below_src().split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    /// `src/http/body.rs` is `http::body`, `src/http/mod.rs` is `http`, and `src/lib.rs` is the root.
    pub(super) fn module_path(&self) -> Vec<String> {
        let mut path: Vec<String> =
            self.path_below_src().trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            path.pop();
        }
        path
    }

    pub(super) fn functions(&self) -> impl Iterator<Item = &Function> {
        let starts: BTreeSet<usize> =
            self.tokens().iter().filter(|token| token.is("fn")).map(|token| token.line).collect();
        self.functions.iter().filter(move |function| starts.contains(&function.first_line))
    }

    pub(super) fn has_test(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function.is_test && function.name == name)
    }

    /// Where this sequence of tokens, given with spaces between them, occurs in the program.
    pub(super) fn find(&self, sequence: &str) -> Vec<usize> {
        let wanted: Vec<&str> = sequence.split(' ').collect();
        let tokens = self.tokens();
        let is_here = |window: &[&Token]| {
            window.iter().zip(&wanted).all(|(token, text)| token.kind != Kind::Text && token.text == *text)
        };
        tokens.windows(wanted.len()).filter(|window| is_here(window)).map(|window| window[0].line).collect()
    }

    /// An offence for each occurrence of one of these sequences.
    pub(super) fn with(&self, sequences: &[&str]) -> Vec<String> {
        let found = |sequence: &&str| {
            let sequence = (*sequence).to_owned();
            self.find(&sequence).into_iter().map(move |line| (line, sequence.clone()))
        };
        sequences
            .iter()
            .flat_map(found)
            .map(|(line, sequence)| format!("{}:{line}: {sequence}", self.path))
            .collect()
    }

    /// All paths of the program that begin with one of these words, groups expanded: `std::{fs, io::Read}` is
    /// `std::fs` and `std::io::Read`.
    pub(super) fn paths(&self, first: &[&str]) -> Vec<Vec<String>> {
        let tokens = self.tokens();
        let mut paths = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let continues_path = at > 0 && tokens[at - 1].is("::");
            let begins = tokens.get(at + 1).is_some_and(|token| token.is("::"));
            if begins && !continues_path && first.iter().any(|word| token.is(word)) {
                expand(&tokens, at, Vec::new(), &mut paths);
            }
        }
        paths
    }
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text
    }
}

/// Adds the paths that begin at this token, and returns the first token after them.
fn expand(tokens: &[&Token], mut at: usize, mut prefix: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            at += 1;
            while tokens.get(at).is_some_and(|token| !token.is("}")) {
                // A comma, a star, or a new name: `Read as R`.
                let is_name =
                    tokens[at].kind == Kind::Word && !tokens[at - 1].is("as") && !tokens[at].is("as");
                at = if is_name { expand(tokens, at, prefix.clone(), paths) } else { at + 1 };
            }
            return at + 1;
        }
        if token.kind != Kind::Word {
            break;
        }
        prefix.push(token.text.clone());
        at += 1;
        if !tokens.get(at).is_some_and(|token| token.is("::")) {
            break;
        }
        at += 1;
    }
    paths.push(prefix);
    at
}

/// Flattens a token stream.
#[derive(Default)]
struct Reader {
    tokens: Vec<Token>,
    /// The bytes of each token, of documentation too.
    ranges: Vec<Range<usize>>,
    /// Lines of documentation.
    documentation: Vec<(usize, String)>,
    /// Whether the last token and the next are one, such as `::`.
    is_joint: bool,
}

impl Reader {
    fn read(&mut self, stream: TokenStream, in_production: bool) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        let mut is_tested = false;
        while let Some(tree) = trees.get(at) {
            if let Some(attribute) = Attribute::at(&trees[at..]) {
                is_tested |= attribute.is_for_tests();
                if let Some(text) = attribute.documentation() {
                    self.ranges.push(attribute.group.span().byte_range());
                    let line = attribute.group.span().start().line;
                    self.documentation.extend((line..).zip(text.lines().map(str::to_owned)));
                    at += attribute.length;
                    continue;
                }
            }
            self.add(tree, in_production && !is_tested);
            // The item behind an attribute ends with its braces or with a semicolon.
            if is_punct(tree, ';') || matches!(tree, TokenTree::Group(group) if is_braces(group)) {
                is_tested = false;
            }
            at += 1;
        }
    }

    fn add(&mut self, tree: &TokenTree, in_production: bool) {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                self.push(open.to_owned(), Kind::Other, group.span_open(), in_production);
                self.read(group.stream(), in_production);
                self.push(close.to_owned(), Kind::Other, group.span_close(), in_production);
            }
            TokenTree::Ident(word) => self.push(word.to_string(), Kind::Word, word.span(), in_production),
            TokenTree::Literal(literal) => {
                let (text, kind) = value(literal);
                self.push(text, kind, literal.span(), in_production);
            }
            TokenTree::Punct(punct) => {
                let last = self.tokens.last_mut().filter(|_| self.is_joint);
                let joined = last.map(|last| (format!("{}{}", last.text, punct.as_char()), last));
                if let Some((text, last)) = joined.filter(|(text, _)| JOINED.contains(&text.as_str())) {
                    last.text = text;
                    self.ranges.push(punct.span().byte_range());
                } else {
                    self.push(punct.as_char().to_string(), Kind::Other, punct.span(), in_production);
                }
                self.is_joint = punct.spacing() == Spacing::Joint;
            }
        }
    }

    fn push(&mut self, text: String, kind: Kind, span: Span, in_production: bool) {
        self.ranges.push(span.byte_range());
        self.tokens.push(Token { text, line: span.start().line, kind, in_production });
        self.is_joint = false;
    }

    /// Documentation, and the comments: text between two tokens that is not white space.
    fn comments(&mut self, text: &str) -> Vec<(usize, String)> {
        self.ranges.sort_by_key(|range| range.start);
        let mut comments = std::mem::take(&mut self.documentation);
        let (mut end, mut line) = (0, 1);
        self.ranges.push(Range { start: text.len(), end: text.len() });
        for range in &self.ranges {
            if range.start >= end {
                let gap = &text[end..range.start];
                let found = (line..).zip(gap.split('\n')).filter(|(_, text)| !text.trim().is_empty());
                comments
                    .extend(found.map(|(line, text)| (line, text.trim().trim_start_matches('/').to_owned())));
                line += gap.matches('\n').count() + text[range.clone()].matches('\n').count();
                end = range.end;
            }
        }
        comments.sort();
        comments
    }
}

/// Punctuation of two characters that is one token here.
const JOINED: [&str; 4] = ["::", "->", "=>", "=="];

/// `#[…]` or `#![…]`.
struct Attribute<'a> {
    group: &'a Group,
    /// In token trees.
    length: usize,
}

impl<'a> Attribute<'a> {
    fn at(trees: &'a [TokenTree]) -> Option<Self> {
        match trees {
            [start, TokenTree::Group(group), ..] if is_punct(start, '#') => Some(Self { group, length: 2 }),
            [start, inner, TokenTree::Group(group), ..] if is_punct(start, '#') && is_punct(inner, '!') => {
                Some(Self { group, length: 3 })
            }
            _ => None,
        }
    }

    fn is_for_tests(&self) -> bool {
        self.group.to_string().replace(' ', "") == "[cfg(test)]"
    }

    /// The text of a documentation comment.
    fn documentation(&self) -> Option<String> {
        let trees: Vec<TokenTree> = self.group.stream().into_iter().collect();
        match &trees[..] {
            [TokenTree::Ident(name), _, TokenTree::Literal(text)] if name == "doc" => Some(value(text).0),
            _ => None,
        }
    }
}

fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_braces(group: &Group) -> bool {
    group.delimiter() == Delimiter::Brace
}

/// The value of a string, or a number as it is written.
fn value(literal: &Literal) -> (String, Kind) {
    match Lit::new(literal.clone()) {
        Lit::Str(text) => (text.value(), Kind::Text),
        Lit::ByteStr(text) => (String::from_utf8_lossy(&text.value()).into_owned(), Kind::Text),
        Lit::CStr(text) => (text.value().to_string_lossy().into_owned(), Kind::Text),
        _ => (literal.to_string(), Kind::Other),
    }
}

#[derive(Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, attributes: &[syn::Attribute], signature: &Signature, block: &Block) {
        let first_line = signature.fn_token.span.start().line;
        self.0.push(Function {
            name: signature.ident.to_string(),
            lines: block.brace_token.span.close().end().line + 1 - first_line,
            first_line,
            is_test: attributes.iter().any(|attribute| attribute.path().is_ident("test")),
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.attrs, &item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn rust_is_read_as_tokens_and_comments() {
    let source = Source::parse(
        "src/a/b.rs",
        concat!(
            "//! One\n",
            "// two\n",
            "fn f() -> &'static str { r#\"unsafe // no\"# } // three\n",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn g() {}\n}\n",
            "fn h() {\n}\n",
        ),
    );
    let comments: Vec<_> = source.comments.iter().map(|(line, text)| (*line, text.trim())).collect();
    assert_eq!(comments, [(1, "One"), (2, "two"), (3, "three")]);
    assert_eq!(source.find("fn f ( ) ->"), [3]);
    assert!(source.find("unsafe").is_empty() && source.find("fn g").is_empty());
    let lines: Vec<_> = source.functions().map(|function| (&*function.name, function.lines)).collect();
    assert_eq!(lines, [("f", 1), ("h", 2)]);
    assert!(source.has_test("g") && !source.has_test("f"));
    assert_eq!(source.module_path(), ["a", "b"]);
    let source =
        Source::parse("src/a.rs", "use std::{fs, io::{self, Read as R}}; fn f() { x!(std::env::var(1)) }");
    let paths: Vec<_> = source.paths(&["std"]).iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["std::fs", "std::io::self", "std::io::Read", "std::env::var"]);
}
