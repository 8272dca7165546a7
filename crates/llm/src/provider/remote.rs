//! The model that speaks any dialect: sends the request, reads the answer, hands out its pieces.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::dialect::{Decoder, Dialect, Out, Progress};
use crate::error::ModelError;
use crate::http::{Answer, Http, SseDecoder};
use crate::model::{About, ChatModel, ChatRequest, Delta, DeltaStream};

/// A model behind HTTP.
pub(crate) struct Remote {
    pub(crate) about: About,
    pub(crate) http: Http,
    pub(crate) dialect: Arc<dyn Dialect>,
}

impl ChatModel for Remote {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let start = Start { http: self.http.clone(), dialect: self.dialect.clone(), request };
        stream::unfold(Phase::Start(Box::new(start)), step).boxed()
    }
}

/// Once an answer is whole its counts are worth this long a wait, not more.
const PATIENCE_FOR_COUNTS: Duration = Duration::from_secs(3);

enum Phase {
    Start(Box<Start>),
    Reading(Box<Reading>),
    Over,
}

struct Start {
    http: Http,
    dialect: Arc<dyn Dialect>,
    request: ChatRequest,
}

struct Reading {
    answer: Answer,
    events: SseDecoder,
    decoder: Box<dyn Decoder>,
    out: Out,
    most_whole: usize,
    request: ChatRequest,
    progress: Progress,
    closed: bool,
    failed: Option<ModelError>,
}

async fn step(phase: Phase) -> Option<(Result<Delta, ModelError>, Phase)> {
    let mut reading = match phase {
        Phase::Over => return None,
        Phase::Reading(reading) => reading,
        Phase::Start(start) => match Reading::open(*start).await {
            Ok(reading) => Box::new(reading),
            Err(error) => return Some((Err(error), Phase::Over)),
        },
    };
    loop {
        if let Some(delta) = reading.out.pop() {
            let over = matches!(delta, Delta::Done { .. });
            return Some((Ok(delta), if over { Phase::Over } else { Phase::Reading(reading) }));
        }
        if let Some(error) = reading.failed.take() {
            return Some((Err(error), Phase::Over));
        }
        if reading.closed {
            return None;
        }
        // What came before a fault in the same bytes is handed out before the fault is.
        if let Err(error) = reading.more().await {
            reading.failed = Some(error);
        }
    }
}

impl Reading {
    async fn open(start: Start) -> Result<Self, ModelError> {
        let Start { http, dialect, request } = start;
        let call = dialect.call(&request)?;
        let answer = http.post(call).await?;
        Ok(Self {
            answer,
            events: SseDecoder::new(http.limits.event_bytes),
            decoder: dialect.decoder(&request),
            out: Out::new(http.limits),
            // Whole, the same words take more room than in pieces: they are quoted and may come twice.
            most_whole: 2 * http.limits.event_bytes.max(http.limits.answer_bytes),
            request,
            progress: Progress::Going,
            closed: false,
            failed: None,
        })
    }

    async fn more(&mut self) -> Result<(), ModelError> {
        if !self.answer.is_stream {
            let most = self.most_whole;
            let body = self.answer.whole(most).await?;
            self.decoder.whole(&body, &mut self.out)?;
            return self.close();
        }
        let piece = match self.progress {
            Progress::Over => return self.close(),
            Progress::Going => self.answer.next().await?,
            Progress::Answered => {
                match tokio::time::timeout(PATIENCE_FOR_COUNTS, self.answer.next()).await {
                    Ok(Ok(piece)) => piece,
                    // The answer itself is whole; only its counts are lost.
                    Ok(Err(_)) | Err(_) => return self.close(),
                }
            }
        };
        let Some(piece) = piece else { return self.close() };
        let Self { answer, events, decoder, out, progress, .. } = self;
        events.feed(piece.as_ref(), |event| {
            answer.begun = true;
            if *progress != Progress::Over {
                *progress = decoder.event(event, out)?;
            }
            Ok(())
        })
    }

    fn close(&mut self) -> Result<(), ModelError> {
        self.closed = true;
        let ending = self.decoder.end(&mut self.out)?;
        self.out.finish(&ending, &self.request)
    }
}
