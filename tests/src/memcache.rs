//! A client that loads memcached from several connections and checks every value it gets back.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A port of the loopback interface that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let give_up = Instant::now() + Duration::from_secs(10);
        let stream = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > give_up => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Connection { reader: BufReader::new(stream.try_clone()?), writer: stream })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        Ok(line.trim_end().to_string())
    }

    fn ask(&mut self, request: &str) -> io::Result<String> {
        self.writer.write_all(request.as_bytes())?;
        self.line()
    }

    fn set(&mut self, key: &str, value: &str) -> io::Result<()> {
        match self.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()))?.as_str() {
            "STORED" => Ok(()),
            other => Err(wrong(format!("set {key}: {other}"))),
        }
    }

    fn get(&mut self, key: &str) -> io::Result<Option<String>> {
        let head = self.ask(&format!("get {key}\r\n"))?;
        if head == "END" {
            return Ok(None);
        }
        let length = head.strip_prefix(&format!("VALUE {key} 0 ")).and_then(|length| length.parse().ok());
        let mut bytes = vec![0; length.ok_or_else(|| wrong(format!("get {key}: {head}")))?];
        self.reader.read_exact(&mut bytes)?;
        let (rest, end) = (self.line()?, self.line()?);
        if !rest.is_empty() || end != "END" {
            return Err(wrong(format!("get {key}: badly ended: {rest:?} {end:?}")));
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn value_for(key: &str, round: usize) -> String {
    format!("{key}/{round}/").repeat(1 + (key.len() * 7 + round) % 40)
}

fn one_client(port: u16, client: usize, rounds: usize) -> io::Result<()> {
    let mut server = Connection::open(port)?;
    for round in 0..rounds {
        let own = format!("own-{client}-{}", round % 20);
        server.set(&own, &value_for(&own, round))?;
        if server.get(&own)? != Some(value_for(&own, round)) {
            return Err(wrong(format!("{own} lost its value in round {round}")));
        }
        let common = format!("common-{}", round % 5);
        server.set(&common, &value_for(&common, round))?;
        let seen = server.get(&common)?.ok_or_else(|| wrong(format!("{common} vanished")))?;
        if !seen.starts_with(&format!("{common}/")) {
            return Err(wrong(format!("{common} holds {seen:?}")));
        }
        if server.ask("incr total 1\r\n")?.parse::<u64>().is_err() {
            return Err(wrong("incr total gave no number".to_string()));
        }
    }
    Ok(())
}

/// Loads the server from `clients` connections at once. Gives the number of increments that the server counted.
pub fn load_memcached(port: u16, clients: usize, rounds: usize) -> io::Result<String> {
    Connection::open(port)?.set("total", "0")?;
    thread::scope(|scope| {
        let all: Vec<_> = (0..clients).map(|client| scope.spawn(move || one_client(port, client, rounds))).collect();
        all.into_iter().try_for_each(|client| client.join().map_err(|_| wrong("client panicked".to_string()))?)
    })?;
    Ok(Connection::open(port)?.get("total")?.unwrap_or_default())
}
