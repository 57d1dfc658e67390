//! What happened, step by step: a hash of it always, the text when asked for.

use std::hash::{Hash, Hasher};

use super::counters::Counters;

/// One thing that happened.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Step {
    Fault { what: &'static str, node: usize },
    Sent { seat: usize, message: u64, verb: &'static str },
    Applied { message: u64, verb: &'static str, key: usize, fence: u64, twice: bool },
    Answered { seat: usize, message: u64 },
    Began { seat: usize, attempt: u64, key: usize },
    Got { seat: usize, attempt: u64, key: usize, fence: u64 },
    Used { seat: usize, key: usize, fence: u64, held: bool },
    Lost { seat: usize, key: usize, fence: u64 },
    Ended { seat: usize, attempt: u64, how: &'static str },
}

/// Violations are few or the run is rubbish: the first ones are enough.
const VIOLATIONS_MAX: usize = 5;

/// Counters, violations and the trace of one run.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) counters: Counters,
    pub(crate) violations: Vec<String>,
    pub(crate) steps: u64,
    pub(crate) lines: Vec<String>,
    hash: Fnv,
    verbose: bool,
}

impl Log {
    pub(crate) fn new(verbose: bool) -> Self {
        Self {
            counters: Counters::default(),
            violations: Vec::new(),
            steps: 0,
            lines: Vec::new(),
            hash: Fnv(0xCBF2_9CE4_8422_2325),
            verbose,
        }
    }

    pub(crate) fn step(&mut self, at: u64, step: Step) {
        self.steps += 1;
        at.hash(&mut self.hash);
        step.hash(&mut self.hash);
        if self.verbose {
            self.lines.push(format!("{} {step:?}", seconds(at)));
        }
    }

    pub(crate) fn violation(&mut self, at: u64, text: &str) {
        if self.verbose {
            self.lines.push(format!("{} VIOLATION {text}", seconds(at)));
        }
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(format!("{} {text}", seconds(at).trim_start()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }
}

fn seconds(nanos: u64) -> String {
    format!("{:>3}.{:06}s", nanos / 1_000_000_000, nanos / 1000 % 1_000_000)
}

/// FNV-1a by words: the same on every machine and in every build, unlike the standard hasher.
#[derive(Debug)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        self.0 ^= self.0 >> 29;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
