//! The models, the encoder and the agents.

use std::sync::Arc;

use doran_llm::{
    ChatRequest, Message, MessagePart, NumberedPassage, PassageKind, Role, collect_reply, embed,
};
use doran_offline::is_offline_model;
use doran_retrieval::{BuiltInEncoder, RamKeywordIndex};

use super::{DoctorCheck, bilingual_error};
use crate::assemble::{self, Agents, DataDirWrites, RecordReplay, model};
use crate::commands::models::install_encoder;
use crate::config::{Config, EncoderChoice, RerankChoice};
use crate::output::{BilingualMessage, bilingual, pluralize};

/// Builds the agents and their tools, those of files and of MCP servers included.
pub(super) async fn check_agents(config: &Config) -> DoctorCheck {
    let (name, index) = ("agents", Arc::new(RamKeywordIndex::default()));
    let built =
        assemble::assemble_agents(config, &RecordReplay::default(), index, DataDirWrites::Forbidden).await;
    let Agents { agents, notes, .. } = match built {
        Ok(built) => built,
        Err(error) => return DoctorCheck::fail(name, bilingual_error(&error)),
    };
    if !notes.is_empty() {
        let ko = notes.iter().map(|note| note.ko.as_str()).collect::<Vec<_>>().join("; ");
        let en = notes.iter().map(|note| note.en.as_str()).collect::<Vec<_>>().join("; ");
        return DoctorCheck::warn(name, BilingualMessage::new(ko, en));
    }
    let (count, all) = (agents.len(), pluralize(agents.len(), "agent"));
    DoctorCheck::ok(name, bilingual!("에이전트 {count}개", "{all}"))
}

pub(super) async fn check_model(config: &Config) -> DoctorCheck {
    let (check, name) = ("model", &config.model);
    if is_offline_model(name) {
        return DoctorCheck::ok(
            check,
            bilingual!(
                "{name}: 내장, LLM 아님. 고르려면 `doran models`",
                "{name}: built in, not an LLM; `doran models` to choose another"
            ),
        );
    }
    if let Err(error) = model::open_model(config, name) {
        return DoctorCheck::fail(check, bilingual_error(&error.into()));
    }
    let listed = match model::model_config_and_key(config, name) {
        Ok((how, secret)) => doran_llm::list_models(&how, secret).await.map(|names| (how.id.model, names)),
        Err(error) => return DoctorCheck::fail(check, bilingual_error(&error.into())),
    };
    match listed {
        Ok((wanted, names)) if names.contains(&wanted) => {
            DoctorCheck::ok(check, bilingual!("{name}: 닿음", "{name}: reached"))
        }
        Ok(_) => DoctorCheck::warn(
            check,
            bilingual!(
                "{name}: 서버에는 닿지만 목록에 그 모델이 없습니다. `doran models`로 확인하세요",
                "{name}: the server is reached but does not list that model; see `doran models`"
            ),
        ),
        Err(error) => {
            let (ko, en) = error.advice();
            DoctorCheck::fail(
                check,
                bilingual!("{name}: 닿지 않음 ({error}). {ko}", "{name}: not reached ({error}). {en}"),
            )
        }
    }
}

pub(super) async fn check_model_servers() -> DoctorCheck {
    let found = doran_llm::discover_local_servers().await;
    let names = found
        .iter()
        .map(|one| format!("{} {} ({})", one.provider, one.base_url, one.models.len()))
        .collect::<Vec<_>>();
    let names = names.join(", ");
    DoctorCheck::ok(
        "servers",
        match found.is_empty() {
            true => {
                bilingual!("이 컴퓨터에 켜진 모델 서버 없음", "no model server is running on this machine")
            }
            false => bilingual!(
                "이 컴퓨터의 모델 서버: {names}. 쓰려면 `doran models`",
                "model servers on this machine: {names}; `doran models` to use one"
            ),
        },
    )
}

/// Checks the encoder of the settings. Installed files must be complete even if they are not used.
pub(super) fn check_encoder(config: &Config) -> DoctorCheck {
    let folder = install_encoder::encoder_folder(config);
    let (name, shown) = ("encoder", folder.display());
    if folder.exists() && !embed::is_encoder_installed(&folder) {
        return DoctorCheck::fail(
            name,
            bilingual!(
                "{shown}: 파일이 없거나 손상되었습니다. `doran models install use-multilingual`로 다시 설치하세요",
                "{shown}: files are missing or damaged; install again with `doran models install use-multilingual`"
            ),
        );
    }
    match &config.search.encoder {
        EncoderChoice::Off => DoctorCheck::ok(
            name,
            bilingual!(
                "없음. 키워드로만 검색합니다. 의미로도 검색하려면 `encoder = \"built-in\"`",
                "none; search is by keywords only. For semantic search set `encoder = \"built-in\"`"
            ),
        ),
        EncoderChoice::BuiltIn => match BuiltInEncoder::open() {
            Ok(_) => DoctorCheck::ok(name, bilingual!("내장 인코더", "the built-in encoder")),
            Err(error) => DoctorCheck::fail(
                name,
                bilingual!(
                    "내장 인코더를 읽을 수 없습니다: {error}",
                    "the built-in encoder cannot be read: {error}"
                ),
            ),
        },
        EncoderChoice::Directory(folder) => {
            let shown = folder.display();
            match folder.exists() {
                true => DoctorCheck::ok(name, bilingual!("{shown}: 있음", "{shown}: found")),
                false => DoctorCheck::fail(
                    name,
                    bilingual!(
                        "{shown}: 없습니다. `doran models install use-multilingual`로 설치하거나 `encoder = \"built-in\"`으로 두세요",
                        "{shown}: does not exist; install it with `doran models install use-multilingual`, or set `encoder = \"built-in\"`"
                    ),
                ),
            }
        }
        EncoderChoice::Endpoint(model) => {
            DoctorCheck::ok(name, bilingual!("임베딩 엔드포인트 {model}", "the embeddings endpoint {model}"))
        }
    }
}

/// Checks the reranker of the settings with one small request.
pub(super) async fn check_reranker(config: &Config) -> DoctorCheck {
    let check = "rerank";
    let name = match &config.search.reranking {
        RerankChoice::Off => {
            return DoctorCheck::ok(
                check,
                bilingual!("꺼짐. 검색한 순서 그대로 씁니다", "off; passages keep the order of the search"),
            );
        }
        RerankChoice::SmallModel => {
            let model = config.small_model.as_ref().unwrap_or(&config.model);
            return match is_offline_model(model) {
                true => DoctorCheck::warn(
                    check,
                    bilingual!(
                        "켜져 있지만 내장 모델은 문단의 순서를 다시 정하지 못합니다. LLM을 고르거나 `rerank`에 리랭커를 적으세요",
                        "on, but the built-in model cannot put passages in a new order; choose an LLM, or set `rerank` to a reranker"
                    ),
                ),
                false => DoctorCheck::ok(
                    check,
                    bilingual!("{model}이(가) 순서를 정합니다", "{model} puts passages in a new order"),
                ),
            };
        }
        RerankChoice::Reranker(name) => name,
    };
    let reranker = match model::open_reranker(config, name) {
        Ok(reranker) => reranker,
        Err(error) => return DoctorCheck::fail(check, bilingual_error(&error.into())),
    };
    match collect_reply(reranker.stream(two_passages_request())).await {
        Ok(_) => DoctorCheck::ok(check, bilingual!("{name}: 닿음", "{name}: reached")),
        Err(error) => {
            let advice = error.advice();
            let (ko, en) = (advice.ko, advice.en);
            DoctorCheck::fail(
                check,
                bilingual!("{name}: 쓸 수 없음 ({error}). {ko}", "{name}: cannot be used ({error}). {en}"),
            )
        }
    }
}

/// A question with two passages.
fn two_passages_request() -> ChatRequest {
    let passage = |number: u32, text: &str| {
        let (title, text, kind) = (String::new(), text.to_owned(), PassageKind::default());
        MessagePart::Passage(NumberedPassage { number, title, text, kind })
    };
    let passages = vec![passage(1, "서울은 한국의 수도입니다."), passage(2, "물은 100도에서 끓습니다.")];
    ChatRequest::new(vec![
        Message::new("passages", Role::System, passages),
        Message::user("question", "한국의 수도는 어디인가요?"),
    ])
}
