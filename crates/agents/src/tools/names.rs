//! The names under which tools are offered to a model.

/// Computes an expression.
pub const CALCULATOR: &str = "calculator";
/// Tells date and time.
pub const GET_CURRENT_DATETIME: &str = "get_current_datetime";
/// Tells the weather of a place.
pub const GET_WEATHER: &str = "get_weather";
/// Looks a subject up in Wikipedia.
pub const SEARCH_WIKIPEDIA: &str = "search_wikipedia";
/// Searches the web.
pub const WEB_SEARCH: &str = "web_search";
/// Reads a file.
pub const READ_FILE: &str = "read_file";
/// Runs Python.
pub const PYTHON_REPL: &str = "python_repl";
/// Keeps a fact about the person.
pub const REMEMBER: &str = "remember";
/// Finds facts that were kept.
pub const RECALL: &str = "recall";
/// Drops a fact that was kept.
pub const FORGET: &str = "forget";
/// Searches contracts and standards.
pub const HYBRID_SEARCH: &str = "hybrid_search";
/// Reads an article by its number.
pub const GET_ARTICLE_BY_INDEX: &str = "get_article_by_index";
/// Reads articles by their title.
pub const GET_ARTICLE_BY_TITLE: &str = "get_article_by_title";
/// Looks an article up in the standard contract.
pub const LOOKUP_STANDARD_CONTRACT: &str = "lookup_standard_contract";

/// The tools of a memory.
pub const MEMORY_TOOLS: [&str; 3] = [REMEMBER, RECALL, FORGET];

/// The tools over contracts.
pub const CONTRACT_TOOLS: [&str; 4] =
    [HYBRID_SEARCH, GET_ARTICLE_BY_INDEX, GET_ARTICLE_BY_TITLE, LOOKUP_STANDARD_CONTRACT];
