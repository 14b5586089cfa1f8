//! Keeps the end of what a program writes into a pipe.

use rustix::fs::{fcntl_setfl, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// One of our own streams.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Reads a pipe without ever waiting and keeps the end of what came.
pub(crate) struct Tail {
    /// The pipe, until it ends.
    pub source: Option<File>,
    bytes: Vec<u8>,
    keep: usize,
    /// Where it is shown, too.
    shown: Option<Stream>,
}

impl Tail {
    /// Of a pipe, the last `keep` bytes; what comes is `shown` on a stream of ours, too, if one is named.
    pub fn new(source: Option<OwnedFd>, keep: usize, shown: Option<Stream>) -> Self {
        let without_waiting = |fd: OwnedFd| fcntl_setfl(&fd, OFlags::NONBLOCK).ok().map(|()| File::from(fd));
        Self { source: source.and_then(without_waiting), bytes: Vec::new(), keep, shown }
    }

    /// One read; whether there may be more at once.
    pub fn read_once(&mut self) -> bool {
        let mut buffer = [0; 65536];
        let Some(source) = &mut self.source else { return false };
        match source.read(&mut buffer) {
            Ok(0) => self.source = None,
            Ok(count) => {
                // A reader of ours that has gone away does not keep us from measuring.
                let _ = match self.shown {
                    Some(Stream::Stdout) => io::stdout().write_all(&buffer[..count]),
                    Some(Stream::Stderr) => io::stderr().write_all(&buffer[..count]),
                    None => Ok(()),
                };
                self.bytes.extend_from_slice(&buffer[..count]);
                if self.bytes.len() > 2 * self.keep + buffer.len() {
                    self.bytes.drain(..self.bytes.len() - self.keep);
                }
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.source = None,
        }
        false
    }

    /// Reads what is there, but no more than a pipe can hold: a process that left the group may still write.
    pub fn drain(&mut self) {
        for _ in 0..64 {
            if !self.read_once() {
                return;
            }
        }
    }

    /// The end of what came.
    pub fn kept(mut self) -> Vec<u8> {
        self.bytes.drain(..self.bytes.len().saturating_sub(self.keep));
        self.bytes
    }
}
