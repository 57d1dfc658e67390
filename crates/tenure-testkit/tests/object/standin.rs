//! A tiny object store that does wrong on command, and counts what it is asked.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_testkit::wait::sleep;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It is made, if its condition holds.
    Made,
    /// It is refused with this status and word, and not made.
    Refused(u16, &'static str),
    /// It is made, and the connection closed without an answer.
    Unanswered,
    /// It is made, and answered with this status all the same.
    MadeAnd(u16, &'static str),
    /// It is made, whatever its condition.
    Forced,
}

/// One request that was answered or should have been.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) at: Moment,
    pub(crate) status: u16,
}

#[derive(Debug, Default)]
struct State {
    objects: Mutex<HashMap<String, (Vec<u8>, u64)>>,
    generations: Mutex<u64>,
    fates: Mutex<VecDeque<Fate>>,
    asked: Mutex<Vec<Asked>>,
    gap: Duration,
}

/// The server. It speaks as much of S3 and of Google's XML as locks need, for the bucket `tenure`.
#[derive(Debug)]
pub(crate) struct Standin {
    address: SocketAddr,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Standin {
    /// A server that keeps to conditions.
    pub(crate) async fn start() -> Result<Self> {
        Self::with_gap(Duration::ZERO).await
    }

    /// A server that checks the condition, waits, and then writes: as s3s-fs does, and others that
    /// keep objects as plain files.
    pub(crate) async fn with_gap(gap: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State { gap, ..State::default() });
        let task = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let state = Arc::clone(&state);
                    tokio::spawn(async move { state.serve(stream).await });
                }
            }
        });
        Ok(Self { address, state, task })
    }

    /// A URL of it as S3, with more options.
    pub(crate) fn s3(&self, more: &str) -> String {
        let at = self.address;
        format!(
            "s3://tenure/p?endpoint=http://{at}&allow_http=true&access_key_id=k\
             &secret_access_key=hush{more}"
        )
    }

    /// A URL of it as Google's.
    pub(crate) fn gs(&self, more: &str) -> String {
        format!(
            "gs://tenure/p?endpoint=http://{}&allow_http=true&anonymous=true{more}",
            self.address
        )
    }

    /// What becomes of the next writes.
    pub(crate) fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state.fates.lock().unwrap().extend(fates);
    }

    /// What was asked since the last time.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.asked.lock().unwrap())
    }
}

#[derive(Clone, Debug, Default)]
struct Request {
    method: String,
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    generation: u64,
    body: Vec<u8>,
}

impl State {
    async fn serve(&self, stream: TcpStream) {
        let mut stream = BufStream::new(stream);
        while let Ok(Some(request)) = receive(&mut stream).await {
            let fate = match request.method.as_str() {
                "PUT" => self.fates.lock().unwrap().pop_front(),
                _ => None,
            };
            let answer = match fate {
                Some(Fate::Refused(status, word)) => error(status, word),
                Some(Fate::MadeAnd(status, word)) => {
                    self.answer(&request).await;
                    error(status, word)
                }
                Some(Fate::Forced) => {
                    let unconditional = Request { headers: HashMap::new(), ..request.clone() };
                    self.answer(&unconditional).await
                }
                Some(Fate::Made | Fate::Unanswered) | None => self.answer(&request).await,
            };
            let Request { method, path, .. } = request;
            let at = SystemClock.now();
            let status = answer.status;
            self.asked.lock().unwrap().push(Asked { method, path, at, status });
            if matches!(fate, Some(Fate::Unanswered)) || send(&mut stream, answer).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, request: &Request) -> Answer {
        let Some(name) = request.path.strip_prefix("/tenure/") else {
            return error(404, "NoSuchBucket");
        };
        match request.method.as_str() {
            "GET" => match self.objects.lock().unwrap().get(name).cloned() {
                Some((body, generation)) => Answer { status: 200, generation, body },
                None => error(404, "NoSuchKey"),
            },
            "PUT" => self.put(name, request).await,
            // Not everyone who writes locks may delete.
            _ => error(403, "AccessDenied"),
        }
    }

    async fn put(&self, name: &str, request: &Request) -> Answer {
        let header = |name: &str| request.headers.get(name).map(String::as_str);
        let holds = |standing: Option<u64>| {
            let standing = standing.unwrap_or(0);
            let wanted = match header("if-none-match") {
                Some(_) => Some("0".to_owned()),
                None => header("if-match").map(|tag| tag.trim_matches('"').to_owned()),
            };
            let wanted = wanted.or(header("x-goog-if-generation-match").map(str::to_owned));
            wanted.is_none_or(|wanted| wanted == standing.to_string())
        };
        let standing =
            |objects: &HashMap<String, (Vec<u8>, u64)>| objects.get(name).map(|object| object.1);
        if !self.gap.is_zero() {
            if !holds(standing(&self.objects.lock().unwrap())) {
                return error(412, "PreconditionFailed");
            }
            sleep(self.gap).await;
        }
        let mut objects = self.objects.lock().unwrap();
        if self.gap.is_zero() && !holds(standing(&objects)) {
            return error(412, "PreconditionFailed");
        }
        let mut generations = self.generations.lock().unwrap();
        *generations += 1;
        objects.insert(name.to_owned(), (request.body.clone(), *generations));
        Answer { status: 200, generation: *generations, body: Vec::new() }
    }
}

fn error(status: u16, word: &str) -> Answer {
    let body = format!("<Error><Code>{word}</Code></Error>").into_bytes();
    Answer { status, generation: 0, body }
}

async fn receive(stream: &mut BufStream<TcpStream>) -> Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut parts = line.split_whitespace().map(str::to_owned);
    let (method, path) = (parts.next().context("no method")?, parts.next().context("no path")?);
    let mut request = Request { method, path, ..Request::default() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = request.headers.get("content-length").map_or(Ok(0), |text| text.parse())?;
    request.body.resize(length, 0);
    stream.read_exact(&mut request.body).await?;
    Ok(Some(request))
}

async fn send(stream: &mut BufStream<TcpStream>, answer: Answer) -> Result<()> {
    let Answer { status, generation, body } = answer;
    let head = format!(
        "HTTP/1.1 {status} x\r\nETag: \"{generation}\"\r\nx-goog-generation: {generation}\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.flush().await?;
    Ok(())
}
