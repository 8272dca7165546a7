//! A model behind HTTP, in any dialect: sends the request, decodes the answer and streams its deltas.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::conversation_repair::repair_conversation;
use super::dialect::{AnswerDecoder, DecodeProgress, DeltaBuffer, Dialect};
use crate::error::ModelError;
use crate::http::{ModelHttpClient, ModelHttpResponse, SseDecoder};
use crate::model::{ChatModel, ChatRequest, Delta, DeltaStream, ModelInfo, SamplingSetting};

/// A model behind HTTP.
pub(crate) struct RemoteModel {
    pub(crate) about: ModelInfo,
    pub(crate) http: ModelHttpClient,
    pub(crate) dialect: Arc<dyn Dialect>,
}

impl ChatModel for RemoteModel {
    fn info(&self) -> ModelInfo {
        self.about.clone()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let start = RemoteStreamStart { http: self.http.clone(), dialect: self.dialect.clone(), request };
        stream::unfold(RemoteStreamPhase::Start(Box::new(start)), next_delta).boxed()
    }
}

/// How long to wait for usage counts after the answer is complete.
const USAGE_WAIT_TIMEOUT: Duration = Duration::from_secs(3);

enum RemoteStreamPhase {
    Start(Box<RemoteStreamStart>),
    Reading(Box<RemoteStreamReader>),
    Ended,
}

struct RemoteStreamStart {
    http: ModelHttpClient,
    dialect: Arc<dyn Dialect>,
    request: ChatRequest,
}

struct RemoteStreamReader {
    answer: ModelHttpResponse,
    events: SseDecoder,
    decoder: Box<dyn AnswerDecoder>,
    delta_buffer: DeltaBuffer,
    max_unstreamed_bytes: usize,
    request: ChatRequest,
    progress: DecodeProgress,
    closed: bool,
    failed: Option<ModelError>,
}

async fn next_delta(phase: RemoteStreamPhase) -> Option<(Result<Delta, ModelError>, RemoteStreamPhase)> {
    let mut reading = match phase {
        RemoteStreamPhase::Ended => return None,
        RemoteStreamPhase::Reading(reading) => reading,
        RemoteStreamPhase::Start(start) => match RemoteStreamReader::open(*start).await {
            Ok(reading) => Box::new(reading),
            Err(error) => return Some((Err(error), RemoteStreamPhase::Ended)),
        },
    };
    loop {
        if let Some(delta) = reading.delta_buffer.pop() {
            let over = matches!(delta, Delta::Done { .. });
            return Some((
                Ok(delta),
                if over { RemoteStreamPhase::Ended } else { RemoteStreamPhase::Reading(reading) },
            ));
        }
        if let Some(error) = reading.failed.take() {
            return Some((Err(error), RemoteStreamPhase::Ended));
        }
        if reading.closed {
            return None;
        }
        // Deltas that precede an error in the same bytes are returned before the error.
        if let Err(error) = reading.read_more().await {
            reading.failed = Some(error);
        }
    }
}

impl RemoteStreamReader {
    async fn open(start: RemoteStreamStart) -> Result<Self, ModelError> {
        let RemoteStreamStart { http, dialect, mut request } = start;
        request.messages = repair_conversation(request.messages);
        if let Some(temperature) = request.temperature.filter(|temperature| !temperature.is_finite()) {
            return Err(ModelError::Rejected {
                reason: format!("the temperature is not a number: {temperature}"),
            });
        }
        for setting in dialect.unsupported_settings() {
            if setting != SamplingSetting::Temperature && request.has_setting(setting) {
                let reason = format!("this model does not take `{}`", setting.name());
                return Err(ModelError::Rejected { reason });
            }
        }
        let call = dialect.build_request(&request)?;
        let answer = http.post(call).await?;
        Ok(Self {
            answer,
            events: SseDecoder::new(http.limits.event_bytes),
            decoder: dialect.decoder(&request),
            delta_buffer: DeltaBuffer::new(http.limits),
            // A whole answer takes more bytes than its deltas: text is escaped and may occur twice.
            max_unstreamed_bytes: 2 * http.limits.event_bytes.max(http.limits.answer_bytes),
            request,
            progress: DecodeProgress::InProgress,
            closed: false,
            failed: None,
        })
    }

    async fn read_more(&mut self) -> Result<(), ModelError> {
        if !self.answer.is_stream {
            let max_bytes = self.max_unstreamed_bytes;
            let body = self.answer.read_body(max_bytes).await?;
            self.decoder.decode_body(&body, &mut self.delta_buffer)?;
            return self.close();
        }
        let piece = match self.progress {
            DecodeProgress::StreamEnded => return self.close(),
            DecodeProgress::InProgress => self.answer.next_chunk().await?,
            DecodeProgress::AnswerComplete => {
                match tokio::time::timeout(USAGE_WAIT_TIMEOUT, self.answer.next_chunk()).await {
                    Ok(Ok(piece)) => piece,
                    // The answer is complete; only its usage counts are lost.
                    Ok(Err(_)) | Err(_) => return self.close(),
                }
            }
        };
        let Some(piece) = piece else { return self.close() };
        let Self { answer, events, decoder, delta_buffer: out, progress, .. } = self;
        events.feed(piece.as_ref(), |event| {
            answer.has_answer_started = true;
            if *progress != DecodeProgress::StreamEnded {
                *progress = decoder.decode_event(event, out)?;
            }
            Ok(())
        })
    }

    fn close(&mut self) -> Result<(), ModelError> {
        self.closed = true;
        let ending = self.decoder.finish_decoding(&mut self.delta_buffer)?;
        self.delta_buffer.push_done(&ending, &self.request)
    }
}
