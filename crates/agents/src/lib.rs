//! Where engine, models and retrieval meet: nodes, tools, prompts and ready-made agents.

pub mod samples;
