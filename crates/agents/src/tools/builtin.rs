//! The built-in tools, made from their configuration.

use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Url;

use super::calculator::Calculator;
use super::datetime::GetCurrentDatetime;
use super::egress::{Egress, EgressError, EgressOptions};
use super::read_file::{DocumentTextReader, ReadFile, ReadableRoot, ReadableRootError};
use super::weather::{GetWeather, OPENWEATHER_URL};
use super::web_search::{TAVILY_URL, WebSearch};
use super::wikipedia::{SearchWikipedia, WIKIPEDIA_EN_URL, WIKIPEDIA_KO_URL};
use super::{Tool, ToolSecret, python};
use crate::memory::{MemoryStore, memory_tools};

/// What the tools are made of. The default is what works without any setting.
#[derive(Clone)]
pub struct BuiltinToolsConfig {
    /// What may be reached, and how.
    pub egress: EgressOptions,
    /// The key of OpenWeather; without it the weather says how to get one.
    pub openweather_key: Option<ToolSecret>,
    /// The key of Tavily; without it web search says how to get one.
    pub tavily_key: Option<ToolSecret>,
    /// Where OpenWeather is.
    pub openweather: String,
    /// Where Tavily is.
    pub tavily: String,
    /// Where the Korean and the English Wikipedia are.
    pub wikipedia: [String; 2],
    /// The time zone that is meant when none is named.
    pub home_timezone: String,
    /// The directories that `read_file` reads.
    pub roots: Vec<ReadableRoot>,
    /// What no root may hold: the database, the settings, the keys.
    pub forbidden: Vec<PathBuf>,
    /// What signs the variables that `python_repl` keeps through a thread; without it there is no `python_repl`.
    pub python: Option<python::SessionSigningKey>,
    /// Who reads documents that are not plain text.
    pub documents: Option<Arc<dyn DocumentTextReader>>,
    /// Where facts are kept; without it there are no tools for them.
    pub memories: Option<Arc<dyn MemoryStore>>,
    /// Whose memory it is within a tenant.
    pub memory_space: String,
}

impl Default for BuiltinToolsConfig {
    fn default() -> Self {
        Self {
            egress: EgressOptions::default(),
            openweather_key: None,
            tavily_key: None,
            openweather: OPENWEATHER_URL.into(),
            tavily: TAVILY_URL.into(),
            wikipedia: [WIKIPEDIA_KO_URL.into(), WIKIPEDIA_EN_URL.into()],
            home_timezone: "Asia/Seoul".into(),
            roots: Vec::new(),
            forbidden: Vec::new(),
            python: None,
            documents: None,
            memories: None,
            memory_space: crate::memory::DEFAULT_SPACE.into(),
        }
    }
}

/// Why the tools cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BuiltinToolsError {
    /// Correct the roots of `read_file`.
    #[error("`read_file` cannot be offered")]
    Roots(#[from] ReadableRootError),
    /// Correct the address.
    #[error("`{0}` is not an address of a service")]
    BadUrl(String),
    /// Correct the proxy or the certificates.
    #[error("the way out cannot be opened")]
    Egress(#[from] EgressError),
}

/// The tools that come with the program, in the order of their names in the documentation.
pub fn builtin_tools(config: BuiltinToolsConfig) -> Result<Vec<Arc<dyn Tool>>, BuiltinToolsError> {
    let url = |text: &str| Url::parse(text).map_err(|_| BuiltinToolsError::BadUrl(text.to_owned()));
    let egress = Arc::new(Egress::new(config.egress)?);
    let [ko, en] = &config.wikipedia;
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Calculator::new()),
        Arc::new(GetCurrentDatetime::new(config.home_timezone)),
        Arc::new(GetWeather::new(egress.clone(), url(&config.openweather)?, config.openweather_key)),
        Arc::new(SearchWikipedia::new(egress.clone(), url(ko)?, url(en)?)),
        Arc::new(WebSearch::new(egress, url(&config.tavily)?, config.tavily_key)),
        Arc::new(ReadFile::new(config.roots, &config.forbidden, config.documents)?),
    ];
    if let Some(key) = config.python {
        tools.push(Arc::new(python::PythonTool::new(python::PythonLimits::default(), key)));
    }
    if let Some(memories) = &config.memories {
        tools.extend(memory_tools(memories, &config.memory_space));
    }
    Ok(tools)
}
