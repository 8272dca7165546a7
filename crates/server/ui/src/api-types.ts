// Types of the HTTP API, generated from the Rust types by `cargo xtask openapi`. Do not edit.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** A document that was just uploaded. */
export type AddedDocument = {
  /** When it was added, in seconds since 1970. */
  added_at: number
  /** The size of the file in bytes. */
  bytes: number
  /** When it last changed, in seconds since 1970. */
  changed_at: number
  /** Its collection. */
  collection: string
  /** The reason in English. */
  en?: string
  /** Why it failed. */
  failure: IngestFailure | null
  /** The format of the file, once it has been read. */
  format: FileFormat | null
  /** The number of invisible characters that were removed from its text. */
  hidden: number
  /** Its opaque identifier. */
  id: DocumentId
  /** Its kind. */
  kind: DocumentKind
  /** The reason in Korean. */
  ko?: string
  /** The name of the file. */
  name: string
  /** The number of pages; 0 for files without pages. */
  pages: number
  /** The number of searchable passages. */
  passages: number
  /** The progress from 0 to 1. */
  progress: number
  /** Why the document could not be ingested. */
  reason?: IngestFailureKind
  /** Whether it replaces another file with the same name. */
  replaced: boolean
  /** Its ingestion state. */
  state: IngestState
  /** The ingestion state; the same as `state`. */
  status: IngestState
  /** The title from the file once it has been read, otherwise the file name. */
  title: string
  /** The searchable version; empty before the first one is ready. */
  version: string
}

/** What an agent shows beside the words of its answer: as `data` of a delta on its way, and in the note `events` of its step on record. */
export type AgentActivity = {
  /** In the person's language. */
  content: string
  /** In a word. */
  step: ThinkingStep
  type: 'thinking'
} | {
  /** What the tool is given. */
  arguments: Json
  /** The id of the call. */
  call: string
  /** The tool. */
  name: string
  type: 'tool_call'
} | {
  /** The id of the call. */
  call: string
  /** Whether the call failed or was refused. */
  failed: boolean
  /** How long it took, in milliseconds. */
  ms: number
  /** The tool. */
  name: string
  /** The beginning of the result. */
  text: string
  type: 'tool_result'
} | {
  /** The places, under the numbers by which the answer cites them. */
  sources: AnswerSource[]
  type: 'sources'
}

/** How a graph is shown. */
export type AgentGraphFormat = 'json' | 'svg' | 'mermaid'

/** An agent. */
export type AgentInfo = {
  /** What the agent does, in English. */
  en: string
  /** The name of the agent in requests. */
  id: string
  /** What the agent does, in Korean. */
  ko: string
  /** The model that answers. */
  model: ModelInfo
  /** Questions to start with. */
  starters: StarterQuestions
}

/** The agents of a server. */
export type AgentList = {
  /** The agents. */
  agents: AgentInfo[]
}

/** The model of one agent. */
export type AgentModel = {
  /** The name of the agent. */
  agent: string
  /** The model that answers. */
  model: ModelInfo
}

/** A place in a document under the number by which an answer cites it. */
export type AnswerSource = {
  /** The article, as people write it: 제5조. */
  article: string | null
  /** The clause within the article: ①. */
  clause: string | null
  /** The document. */
  document: string
  /** Where it ends. */
  end: number
  /** Whose document it is. */
  kind: AnswerSourceKind
  /** `[1]` in an answer means the source numbered 1. */
  number: number
  /** The page it starts on, from 1. */
  page: number | null
  /** The passage it was found in. */
  passage: string
  /** The words, exactly those of the document from `start` to `end`. */
  quote: string
  /** Where the quote starts in the text of the document, in bytes. */
  start: number
  /** What a person calls the place: document and headings. */
  title: string
  /** The version of the document. */
  version: string
}

/** Whose document a source is. */
export type AnswerSourceKind = 'general' | 'user' | 'standard'

/** A part of a text, in bytes of UTF-8. */
export type ByteRange = {
  /** Where it ends. */
  end: number
  /** Where it starts. */
  start: number
}

/** A reply that came from the cache of replies. */
export type CachedReplyNote = {
  /** Always `true`. */
  cached: boolean
  /** Why the reply ended. */
  finish: FinishReason
  /** The model. */
  name: string
  /** What the reply was for. */
  purpose: RequestLabel
}

/** An answer. */
export type ChatAnswer = {
  /** `false` if an earlier run of the thread waits, so that this message was not sent. */
  accepted?: boolean
  /** Whether there is no answer but an error. */
  error?: boolean
  /** The code of the error, for programs. */
  errorCode?: string
  /** How long the request took, in seconds. */
  executionTime: number
  /** The requests that were sent to models. */
  modelCalls?: number
  /** The nodes that ran, in order. */
  path?: string[]
  /** The open questions. */
  questions?: QuestionInfo[]
  /** The answer; `null` while the run waits for an approval. */
  response: string | null
  /** The run. An empty message starts none. */
  runId?: string
  /** The thread. */
  sessionId: string
  /** The sources of the answer, numbered from 1 as the answer cites them. */
  sources?: AnswerSource[]
  /** Always `paused`. */
  status?: ChatPauseStatus
  /** The tools that were used, each once. */
  toolsUsed?: string[]
}

/** A request for a chat completion. Other fields of OpenAI's API are accepted and ignored. */
export type ChatCompletionBody = {
  /** The conversation. The last message of the user is the question. */
  messages: OpenAiMessage[]
  /** `thread_id` is the thread to continue. */
  metadata?: Json
  /** The name of the agent. */
  model: string
  /** The number of answers. Only 1 is possible. */
  n?: number | null
  /** Whether the answer is streamed. */
  stream?: boolean | null
  /** Options of a stream. */
  stream_options?: CompletionStreamOptions | null
}

/** The status of an answer that is not there yet. */
export type ChatPauseStatus = 'paused'

/** Options of a stream. */
export type CompletionStreamOptions = {
  /** Whether the last chunk has the usage. */
  include_usage?: boolean
}

/** The identifier of a document, such as its path. */
export type DocumentId = string

/** A document. */
export type DocumentInfo = {
  /** When it was added, in seconds since 1970. */
  added_at: number
  /** The size of the file in bytes. */
  bytes: number
  /** When it last changed, in seconds since 1970. */
  changed_at: number
  /** Its collection. */
  collection: string
  /** The reason in English. */
  en?: string
  /** Why it failed. */
  failure: IngestFailure | null
  /** The format of the file, once it has been read. */
  format: FileFormat | null
  /** The number of invisible characters that were removed from its text. */
  hidden: number
  /** Its opaque identifier. */
  id: DocumentId
  /** Its kind. */
  kind: DocumentKind
  /** The reason in Korean. */
  ko?: string
  /** The name of the file. */
  name: string
  /** The number of pages; 0 for files without pages. */
  pages: number
  /** The number of searchable passages. */
  passages: number
  /** The progress from 0 to 1. */
  progress: number
  /** Why the document could not be ingested. */
  reason?: IngestFailureKind
  /** Its ingestion state. */
  state: IngestState
  /** The ingestion state; the same as `state`. */
  status: IngestState
  /** The title from the file once it has been read, otherwise the file name. */
  title: string
  /** The searchable version; empty before the first one is ready. */
  version: string
}

/** The kind of a document. */
export type DocumentKind = 'general' | 'contract' | {
  standard: string
}

/** The documents of a tenant. */
export type DocumentList = {
  /** The documents. */
  documents: DocumentInfo[]
  /** The number of samples that are searched while there is no document. */
  samples?: number
}

/** The text of a document. */
export type DocumentText = {
  /** The id of the document. */
  id: DocumentId
  /** The byte offset in `text` at which each page starts; empty for files without pages. */
  pages: number[]
  /** The text. */
  text: string
  /** The title of the document. */
  title: string
  /** The version of the document. */
  version: string
}

/** A graph as JSON. */
export type DrawnGraph = {
  /** The edges. */
  edges: TopologyEdge[]
  /** The nodes, with the two ends `__start__` and `__end__`. */
  nodes: DrawnNode[]
}

/** A node of a `DrawnGraph`. */
export type DrawnNode = {
  /** What the node is. */
  data: DrawnNodeData
  /** Whether the node runs only when nothing else is due. */
  deferred?: boolean
  /** The name of the node. */
  id: string
  /** The graph inside the node. */
  inner?: DrawnGraph
  /** Always `runnable`. */
  type: DrawnNodeType
}

/** What a `DrawnNode` is. */
export type DrawnNodeData = {
  /** The name of the node. */
  name: string
}

/** The type of a `DrawnNode`, as other programs that draw graphs call it. */
export type DrawnNodeType = 'runnable'

/** What an entry is. The numbers are the stored form. */
export type EntryKind = 'started' | 'step' | 'inner' | 'paused' | 'resumed' | 'restarted' | 'finished' | 'failed' | 'cancelled' | 'edited'

/** The format of a file. */
export type FileFormat = 'hwpx' | 'hwp' | 'pdf' | 'docx' | 'xlsx' | 'csv' | 'html' | 'markdown' | 'text'

/** Why an answer ended. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'filtered' | 'other'

/** A fork. */
export type ForkThreadBody = {
  /** The agent whose state it is. It is needed if the thread has no agent. */
  agent?: string | null
  /** The log entry (`seq`) to continue from. The default is the newest entry. */
  at?: number | null
  /** Whether the nodes that are due after the entry run at once. `active` is then their run. */
  go_on?: boolean
  /** The title. The default is the title of the source. */
  title?: string | null
}

/** The health of the server. */
export type HealthInfo = {
  /** The status. */
  status: HealthStatus
}

/** Whether the server can do its work. */
export type HealthStatus = 'ok' | 'ready'

/** A word of a query that a passage contains. */
export type HighlightInfo = {
  /** Where it stands in the text of the passage. */
  ranges: ByteRange[]
  /** The stem that was searched, or an English word as the passage has it. */
  term: string
}

/** An entry of the log of a thread. */
export type HistoryEntry = {
  /** When it was written, in milliseconds since 1970. */
  at: number
  /** What the entry records. */
  kind: EntryKind
  /** The nodes that are due next. */
  next?: string[]
  /** The nodes that ran. */
  nodes?: string[]
  /** The entry before it. */
  parent: number
  /** The run that wrote it. */
  run: string | null
  /** The number of the entry. */
  seq: number
  /** How many steps of the run are finished. */
  step?: number
}

/** What a second run on a busy thread does. A thread is busy while it has an active run, or runs that wait. */
export type IfBusy = 'reject' | 'enqueue' | 'interrupt' | 'rollback'

/** A picture by reference: a `data:` URL or an address the model can reach. */
export type ImageReference = {
  /** Its media type, such as `image/png`. */
  media_type: string
  /** Who gave it. */
  origin: TextOrigin
  /** Where it is. */
  url: string
}

/** Why a file could not be ingested. */
export type IngestFailure = {
  /** Details for the log; may be empty. */
  detail: string
  /** The kind of failure. */
  kind: IngestFailureKind
}

/** The kinds of failure, by remedy. */
export type IngestFailureKind = 'encrypted' | 'locked' | 'corrupt' | 'no_text' | 'too_large' | 'unsupported' | 'timed_out' | 'out_of_memory' | 'empty' | 'crashed' | 'no_jail' | 'not_indexed' | 'disk'

/** The ingestion state of a document. */
export type IngestState = 'queued' | 'reading' | 'indexing' | 'ready' | 'failed' | 'paused' | 'cancelled' | 'removing'

/** A question of a run that waits for a person. */
export type InterruptQuestion = {
  /** The exact call that the answer is bound to. */
  approval: string
  /** What the tool would be given. */
  arguments: Json
  /** The id of the call. */
  call: string
  /** The question in English. */
  en: string
  /** The question in Korean. */
  ko: string
  /** The tool. */
  name: string
  type: 'approve_tool'
  /** Why it is asked. */
  why: ToolCallReason
} | {
  /** What the tool was given. */
  arguments: Json
  /** The name of the recorded effect. The engine adds it. */
  call?: string
  /** The question in English. */
  en: string
  /** The idempotency key of the call. The engine adds it. */
  key?: string
  /** The question in Korean. */
  ko: string
  /** The tool. */
  name: string
  type: 'tool_unknown'
} | {
  /** The question in English. */
  en: string
  /** The question in Korean. */
  ko: string
  type: 'question'
}

/** A new thread. */
export type MakeThreadBody = {
  /** The agent that the thread is for. */
  agent?: string | null
  /** The title of the thread. */
  title?: string | null
}

/** A fact that agents remember across threads. */
export type MemoryFactInfo = {
  /** When it was stored, in milliseconds since 1970. */
  at: number
  /** The id of the fact. */
  id: string
  /** The fact. */
  text: string
}

/** The facts that agents remember. */
export type MemoryFactList = {
  /** The facts. */
  facts: MemoryFactInfo[]
}

/** A message of a thread. */
export type MessageInfo = {
  /** When the entry was written, in milliseconds since 1970. */
  at: number
  /** The id of the message within the thread. */
  id: string
  /** All parts, including tool calls and their results. */
  parts: MessagePart[]
  /** Who wrote it. */
  role: Role
  /** The run that the message belongs to. */
  run: string | null
  /** The log entry that holds the message. */
  seq: number
  /** The sources of the answer. */
  sources: AnswerSource[]
  /** The text. */
  text: string
}

/** The messages of a thread. */
export type MessageList = {
  /** The messages, oldest first. */
  messages: MessageInfo[]
}

/** A piece of a message. */
export type MessagePart = {
  /** Where they came from. */
  origin: TextOrigin
  /** The words. */
  text: string
  type: 'text'
} | NumberedPassage & {
  type: 'passage'
} | ToolCall & {
  type: 'tool_call'
} | ToolResult & {
  type: 'tool_result'
} | ImageReference & {
  type: 'image'
} | {
  /** What the vendor wants to see again with the next request, if anything. */
  signature?: string
  /** The words. */
  text: string
  type: 'reasoning'
}

/** A reply of a model. */
export type ModelCallNote = ModelRequestNote | CachedReplyNote | UnfinishedRequestNote

/** What a model is. */
export type ModelInfo = {
  /** The same in English. */
  en: string
  /** What kind of thing answers. */
  kind: ModelKind
  /** What it does and does not do, in Korean. */
  ko: string
  /** The name to put on every answer. */
  name: string
}

/** What kind of thing answers. */
export type ModelKind = 'language' | 'extractive'

/** The models in use. */
export type ModelList = {
  /** The model of each agent. */
  active: AgentModel[]
}

/** A request to a model, and what it took. */
export type ModelRequestNote = {
  /** Tokens that the vendor read from its cache. */
  cached_tokens: number
  /** What it cost, in millionths of a dollar; `null` where the price is not known. */
  cost_micros: number | null
  /** Who counted the tokens. */
  counted: TokenCountSource
  /** Why the reply ended. */
  finish: FinishReason
  /** Tokens read. */
  input_tokens: number
  /** What kind of thing answered. */
  kind: ModelKind
  /** How long it took, in milliseconds. */
  ms: number
  /** The model. */
  name: string
  /** Tokens written. */
  output_tokens: number
  /** What the reply was for. */
  purpose: RequestLabel
  /** Which of the configured models was meant. */
  role: ModelRole
}

/** Which of the configured models is meant. */
export type ModelRole = 'small' | 'main'

/** What calls of one model used. */
export type ModelUsageInfo = {
  /** The number of calls. */
  calls: number
  /** The cost in millionths of a US dollar; `null` if the price of a call is unknown. */
  cost_micros: number | null
  /** Tokens that the model read. */
  input_tokens: number
  /** The name of the model. */
  name: string
  /** Tokens that the model wrote. */
  output_tokens: number
}

/** A passage given to a model as material, with the number by which an answer cites it. */
export type NumberedPassage = {
  /** The citation number; `[1]` in an answer means the passage numbered 1. */
  number: number
  /** The words themselves. */
  text: string
  /** What a person calls the place: document and heading. */
  title: string
}

/** A source of an answer. */
export type OpenAiAnnotation = {
  /** Always `url_citation`. */
  type: string
  /** The source. */
  url_citation: UrlCitation
}

/** The message of an answer. */
export type OpenAiAnswerMessage = {
  /** One annotation for each source. */
  annotations: OpenAiAnnotation[]
  /** The text. */
  content: string
  /** The same, under the name that other clients read. */
  reasoning?: string
  /** What the agent did before it answered. */
  reasoning_content?: string
  /** Always `null`. */
  refusal: null
  /** Always `assistant`. */
  role: string
}

/** The text of an answer. */
export type OpenAiChoice = {
  /** Always `stop`. */
  finish_reason: string
  /** Always 0. */
  index: number
  /** Always `null`. */
  logprobs: null
  /** The message. */
  message: OpenAiAnswerMessage
}

/** An answer. */
export type OpenAiCompletion = {
  /** The answer. There is always one. */
  choices: OpenAiChoice[]
  /** When the answer was started, in seconds since 1970. */
  created: number
  /** The id of the answer. */
  id: string
  /** The name of the agent. */
  model: string
  /** Always `chat.completion`. */
  object: string
  /** The sources of the answer. */
  sources: AnswerSource[]
  /** The tokens that the run used. */
  usage: OpenAiUsage
}

/** An error response. */
export type OpenAiError = {
  /** The error. */
  error: OpenAiErrorBody
}

/** An error. */
export type OpenAiErrorBody = {
  /** The code of the error, for programs. */
  code: string
  /** The error in English. */
  message: string
  /** The error in Korean. */
  message_ko: string
  /** Always `null`. */
  param: null
  /** The kind of error, as OpenAI's API names it. */
  type: string
}

/** A message of the client's conversation. */
export type OpenAiMessage = {
  /** The text, or a list of parts with `text`. */
  content?: Json
  /** `system`, `developer`, `user`, `assistant` or `tool`. */
  role: string
}

/** An agent as a model of OpenAI's API. */
export type OpenAiModel = {
  /** A time in seconds since 1970; the same for all agents. */
  created: number
  /** The name of the agent. */
  id: string
  /** Always `model`. */
  object: string
  /** Always `doran`. */
  owned_by: string
}

/** All agents as models. */
export type OpenAiModelList = {
  /** The models. */
  data: OpenAiModel[]
  /** Always `list`. */
  object: string
}

/** The tokens that an answer used. */
export type OpenAiUsage = {
  /** Tokens that models wrote. */
  completion_tokens: number
  /** Tokens that models read. */
  prompt_tokens: number
  /** The sum of both. */
  total_tokens: number
}

/** The identifier of a passage, made of its document and its start offset. */
export type PassageId = string

/** An error response (`application/problem+json`). */
export type Problem = {
  /** The code of the error, for programs. */
  code: string
  /** Details of this occurrence, in English. */
  detail?: string
  /** Details of this occurrence, in Korean. */
  detail_ko?: string
  /** The status of the response. */
  status: number
  /** The error in English. */
  title: string
  /** The error in Korean. */
  title_ko: string
  /** Always `about:blank`. */
  type: string
}

/** A question of a run to a person. */
export type QuestionInfo = {
  /** The id of the question. The answer names it. */
  id: string
  /** Why the run waits: a node asks, a breakpoint was reached, or it is unknown whether a call happened that must not be repeated. */
  kind: QuestionKind
  /** The node that asks. */
  node: string
  /** Why the last answer was rejected. */
  problem?: string
  /** The question. For a question about a tool, `answer` is an example of an answer. A question of the kind `effect_unknown` takes `{"result": …}` if the call happened, and `{"retry": true}` if it did not and may be made. */
  question: InterruptQuestion | Json
  /** The run that asks. It takes the answer. It may be an earlier run of the thread. */
  run: string
}

/** Why a run waits. */
export type QuestionKind = 'ask' | 'breakpoint' | 'effect_unknown'

/** A new title. */
export type RenameThreadBody = {
  /** The title of the thread. */
  title: string
}

/** A short name for what a request is for, such as `answer`. It is shown in traces and recordings. This crate knows `RequestLabel::ANSWER` alone; what other labels mean is agreed between the sender and a model that reads them. */
export type RequestLabel = string

/** Answers to questions. */
export type ResumeRunBody = {
  /** The answers, by the id of the question. There must be at least one. */
  answers: { [key: string]: Json }
}

/** Whose turn a message is. */
export type Role = 'system' | 'user' | 'assistant' | 'tool'

/** A run and its answer. */
export type RunAnswer = {
  /** The agent of the run. */
  agent: string
  /** When the run was accepted, in milliseconds since 1970. */
  created: number
  /** When the run ended, in milliseconds since 1970. */
  ended: number | null
  /** Whether the answer only says that there is none. */
  error?: boolean
  /** Why, for programs. */
  errorCode?: string
  /** The code of the error, for programs. */
  error_code?: string
  /** The error in English. */
  error_en?: string
  /** The error in Korean. */
  error_ko?: string
  /** The message of the part that failed. */
  error_message?: string
  /** Seconds from question to answer, where the agent counts them. */
  executionTime?: number
  /** The id of the run. */
  id: string
  /** The language of the answer. */
  language?: UserLanguage
  /** Requests sent to models, those that failed and were sent again included. */
  modelCalls?: number
  /** Nodes that ran, in order. */
  path?: string[]
  /** The open questions of a paused run, or of the earlier run of the thread that this run waits for. */
  questions?: QuestionInfo[]
  /** The answer. */
  response?: string
  /** What it rests on. */
  sources?: AnswerSource[]
  /** When the run started, in milliseconds since 1970. */
  started: number | null
  /** The status of the run. */
  status: RunStatus
  /** The number of finished steps. */
  steps: number
  /** What the conversation held before the messages that are still worked with. */
  summary?: string
  /** The thread of the run. */
  thread: string
  /** Tools that were run, each named once. */
  toolsUsed?: string[]
  /** The tokens and the money that the run used. */
  usage: RunUsage
}

/** A run with its open questions. */
export type RunDetail = {
  /** The agent of the run. */
  agent: string
  /** In the response to `cancel`: the run was told to end and has not ended yet. */
  cancel_requested?: boolean
  /** When the run was accepted, in milliseconds since 1970. */
  created: number
  /** When the run ended, in milliseconds since 1970. */
  ended: number | null
  /** The code of the error, for programs. */
  error_code?: string
  /** The error in English. */
  error_en?: string
  /** The error in Korean. */
  error_ko?: string
  /** The message of the part that failed. */
  error_message?: string
  /** The id of the run. */
  id: string
  /** The open questions of a paused run. */
  questions?: QuestionInfo[]
  /** When the run started, in milliseconds since 1970. */
  started: number | null
  /** The status of the run. */
  status: RunStatus
  /** The number of finished steps. */
  steps: number
  /** The thread of the run. */
  thread: string
  /** The tokens and the money that the run used. */
  usage: RunUsage
}

/** An event of a run. `type` is also the name of its frame. */
export type RunEvent = {
  /** When the event was written, in milliseconds since 1970. */
  at?: number
  /** The number of the event within the run, from 1 without gaps. Deltas have no number. */
  n?: number
} & ({
  /** Its agent. */
  agent: string
  /** Its id. */
  run: string
  /** Its thread. */
  thread: string
  type: 'started'
} | {
  /** What is due next. */
  next: string[]
  /** Where a step inside a node belongs. */
  path?: string
  /** Steps finished so far. */
  step: number
  /** What each node did. */
  tasks: StepTask[]
  type: 'step'
} | {
  /** What it asks. */
  questions: QuestionInfo[]
  type: 'paused'
} | {
  /** By question. */
  answers: { [key: string]: Json }
  type: 'resumed'
} | {
  type: 'restarted'
  /** Why. */
  why: string
} | {
  type: 'finished'
} | {
  /** Stable, for programs. */
  code: string
  /** For people. */
  en?: string
  /** The same in Korean. */
  ko?: string
  /** As whoever failed put it. */
  message: string
  /** The node that failed. */
  node?: string
  type: 'failed'
  /** Nodes of the last step that did not finish. */
  unfinished?: UnfinishedTask[]
} | {
  /** Text shown before it was cut off, by node. */
  partial?: { [key: string]: string }
  type: 'cancelled'
  /** Nodes of the step that was cut off. */
  unfinished?: UnfinishedTask[]
} | {
  /** Which try of the node. */
  attempt: number
  /** What the agent shows beside the text. */
  data?: AgentActivity | Json
  /** Number of the piece within the try, from 0. */
  index: number
  /** The node. */
  node: string
  /** The node is tried again, for this reason: what its earlier try showed is void. */
  restarted?: string
  /** The next words. */
  text?: string
  type: 'delta'
} | {
  /** The number after which events were asked for, or the last one that was sent. */
  after: number
  /** The number of the next event. */
  next: number
  type: 'gone'
} | {
  type: 'draining'
} | {
  /** The error. */
  problem: Problem
  type: 'error'
})

/** A run. */
export type RunInfo = {
  /** The agent of the run. */
  agent: string
  /** When the run was accepted, in milliseconds since 1970. */
  created: number
  /** When the run ended, in milliseconds since 1970. */
  ended: number | null
  /** The code of the error, for programs. */
  error_code?: string
  /** The error in English. */
  error_en?: string
  /** The error in Korean. */
  error_ko?: string
  /** The message of the part that failed. */
  error_message?: string
  /** The id of the run. */
  id: string
  /** When the run started, in milliseconds since 1970. */
  started: number | null
  /** The status of the run. */
  status: RunStatus
  /** The number of finished steps. */
  steps: number
  /** The thread of the run. */
  thread: string
  /** The tokens and the money that the run used. */
  usage: RunUsage
}

/** The runs of a thread. */
export type RunList = {
  /** The runs, newest first. */
  runs: RunInfo[]
}

/** Where a run stands. */
export type RunStatus = 'queued' | 'running' | 'paused' | 'finished' | 'failed' | 'cancelled'

/** Tokens and money. */
export type RunUsage = {
  /** Millionths of a US dollar. */
  cost_micros: number
  /** Tokens read by models. */
  input_tokens: number
  /** Tokens written by models. */
  output_tokens: number
}

/** A passage that a search found. */
export type SearchHit = {
  /** The article of the passage, such as 제5조. */
  article: string | null
  /** The document of the passage. */
  document: DocumentId
  /** The byte offset in the document at which the passage ends. */
  end: number
  /** The page on which the passage starts, from 1. */
  page: number | null
  /** The id of the passage. */
  passage: PassageId
  /** The score; higher is better. */
  score: number
  /** The byte offset in the document at which the passage starts. */
  start: number
  /** The text of the passage. */
  text: string
  /** The title of the document and the headings above the passage. */
  title: string
  /** The words of the query that the passage contains, with their byte ranges in `text`. */
  why: HighlightInfo[]
}

/** The passages that a search found. */
export type SearchHitList = {
  /** The passages, best first. */
  hits: SearchHit[]
}

/** A message. */
export type SpecChatBody = {
  /** The name of the agent. `POST /api/contract/chat` takes only `contract`. */
  agent?: string | null
  /** The collection of documents to search. */
  collection?: string | null
  /** The document id of the contract that the message is about. `contract_id` is another name for it. */
  contractId?: string | null
  /** The message. `user_message` is another name for it. */
  message?: string | null
  /** Earlier messages, for a new thread. An existing thread has its own. `previous_turn` is another name for it. */
  previousTurn?: SpecPreviousMessage[] | null
  /** The thread to continue; a new one without it. `session_id` is another name for it. */
  sessionId?: string | null
  /** The same as `sessionId`. `thread_id` is another name for it. */
  threadId?: string | null
}

/** Who wrote an earlier message. */
export type SpecMessageRole = 'user' | 'assistant'

/** An earlier message. */
export type SpecPreviousMessage = {
  /** The text. */
  content: string
  /** Who wrote it. */
  role: SpecMessageRole
}

/** The message for an agent. */
export type StartRun = {
  /** The name of the agent. */
  agent: string
  /** The collection of documents to search. */
  collection?: string | null
  /** The document id of the contract that the message is about. */
  contract_id?: string | null
  /** A text that comes with the message and that the person did not type, such as a file. The model sees it as a quoted document and trusts it as any other document. */
  document?: string | null
  /** What to do when the thread has an active run: `reject` (the default), `enqueue`, `interrupt` or `rollback`. */
  if_busy?: IfBusy | null
  /** The message. It must not be empty. */
  message: string
}

/** Questions to begin with, in both languages. */
export type StarterQuestions = {
  /** In English. */
  en: string[]
  /** In Korean. */
  ko: string[]
}

/** The notes of a step that programs read. Each field is a note of its own, absent while it is empty; a step may have further notes for people. */
export type StepNotes = {
  /** What the node showed, in order. */
  events?: AgentActivity[]
  /** Replies of models. */
  models?: ModelCallNote[]
}

/** What a node did in a step. */
export type StepTask = {
  /** How often it was tried. */
  attempts: number
  /** Tokens read. */
  input_tokens: number
  /** How long it took, in milliseconds. */
  ms: number
  /** The node. */
  node: string
  /** What it noted for people. */
  notes?: StepNotes
  /** Tokens written. */
  output_tokens: number
  /** What the change says about the turn, as its agent reads it; absent where the agent is not there any more, or became another under the same name. */
  turn?: TurnUpdate
  /** The change it proposed. */
  update: Json
}

/** Where a text came from, whoever passes it on. */
export type TextOrigin = 'program' | 'user' | 'document' | 'web' | 'tool' | 'model'

/** What an agent is doing, in a word. */
export type ThinkingStep = 'routing' | 'searching' | 'summarizing' | 'planning' | 'tool_selected' | 'evaluation_result' | 'generating'

/** A page of the log of a thread. */
export type ThreadHistory = {
  /** The `after` of the next page; `null` on the last page. */
  next: number | null
  /** The entries, oldest first. */
  steps: HistoryEntry[]
}

/** A thread. */
export type ThreadInfo = {
  /** The run that is active or waits. */
  active: string | null
  /** The agent that was asked first. */
  agent: string | null
  /** When the thread was created, in milliseconds since 1970. */
  created: number
  /** The name of the thread in requests. */
  id: string
  /** The title; empty until the first message. */
  title: string
  /** When the thread last changed, in milliseconds since 1970. */
  updated: number
}

/** A page of threads. */
export type ThreadList = {
  /** The `cursor` of the next page; `null` on the last page. */
  next: number | null
  /** The threads, most recently changed first. */
  threads: ThreadInfo[]
}

/** The state of a thread after an entry. */
export type ThreadStateInfo = {
  /** The requests that the node in `explain` would send to models in this state. */
  asks?: Json[]
  /** The nodes that are due next. */
  next: string[]
  /** The entry. */
  seq: number
  /** The state, as the agent defines it. */
  state: Json
}

/** Who counted tokens. */
export type TokenCountSource = 'reported' | 'estimated'

/** A model's request to run a tool. */
export type ToolCall = {
  /** What it is to work on; fits the schema of the tool only after it was checked. Arguments that are not JSON, or are nested too deep, are a string. */
  arguments: Json
  /** Names the call; its result carries the same. */
  id: string
  /** The tool. */
  name: string
}

/** Why a call is not simply made. */
export type ToolCallReason = 'policy' | 'injection' | 'refused'

/** What a tool gave back for one call. */
export type ToolResult = {
  /** The call that this answers. */
  call: string
  /** Whether it failed; then the text says why. */
  failed: boolean
  /** The tool. */
  name: string
  /** Where the text came from: `tool`, `document` or `web`. */
  origin: TextOrigin
  /** What it said, as text. */
  text: string
}

/** An edge of a `GraphTopology`. */
export type TopologyEdge = {
  /** Taken only when the branch says so. */
  conditional?: boolean
  /** Where it starts. */
  source: string
  /** Where it ends. */
  target: string
}

/** How far the turn has come. The question of a new turn starts it anew. */
export type TurnProgress = {
  /** The language the person is answered in. */
  language: UserLanguage
  /** Requests sent to models, repairs and failed ones included. */
  model_calls: number
  /** Nodes that ran, in order. */
  path: string[]
  /** Rounds of tools so far. */
  tool_rounds: number
  /** Tools run, each named once. */
  tools_used: string[]
}

/** What the update of a node says about the turn, whatever its agent calls its fields. Only `messages` has the same name in all agents, and is not repeated here. */
export type TurnUpdate = {
  /** Why the answer only says that there is none. */
  error_code?: string
  /** Numbers of sources that were found, and that the answer may cite. */
  found?: number[]
  /** How far the turn has come. */
  progress?: TurnProgress
  /** Whether the messages in this update were said before, and are only shortened or put in place again. */
  rewrites_messages?: boolean
  /** What the answer in this update rests on. */
  sources?: AnswerSource[]
}

/** A request to a model that brought no reply. Its tokens are an estimate; a request that the vendor refused took none. */
export type UnfinishedRequestNote = {
  /** What it cost, in millionths of a dollar; `null` where the price is not known. */
  cost_micros: number | null
  /** Who counted the tokens. */
  counted: TokenCountSource
  /** Tokens read. */
  input_tokens: number
  /** What kind of thing was asked. */
  kind: ModelKind
  /** How long it took, in milliseconds. */
  ms: number
  /** The model. */
  name: string
  /** Tokens written. */
  output_tokens: number
  /** What the reply was for. */
  purpose: RequestLabel
  /** Which of the configured models was meant. */
  role: ModelRole
  /** Why there is no reply: `stopped`, or the code of the error. */
  unfinished: string
}

/** A task that failed or was cancelled: what it had spent and noted by then. */
export type UnfinishedTask = {
  /** Tries. */
  attempts: number
  /** How long it ran in milliseconds, retries included. */
  ms: number
  /** The node. */
  node: string
  /** What its last try noted for the inspector. */
  notes?: { [key: string]: Json }
  /** What it spent. */
  usage?: RunUsage
}

/** Where an answer cites a source, and where the source is. */
export type UrlCitation = {
  /** The id of the document. */
  document: string
  /** Where the citation ends in the text, in characters. */
  end_index: number
  /** The number by which the answer cites the source. */
  number: number
  /** The page, from 1. */
  page: number | null
  /** The quoted words. */
  quote: string
  /** Where the citation starts in the text, in characters. */
  start_index: number
  /** The title of the source. */
  title: string
  /** The path of the document's text on this server. */
  url: string
}

/** What runs used. */
export type UsageInfo = {
  /** The usage of each model. Only with `thread`. */
  by_model?: ModelUsageInfo[]
  /** Whether all runs were counted, not only the newest. */
  complete: boolean
  /** The cost in millionths of a US dollar. */
  cost_micros: number
  /** Tokens that models read. */
  input_tokens: number
  /** Tokens that models wrote. */
  output_tokens: number
  /** The number of runs. */
  runs: number
}

/** A language of the people who use the program. */
export type UserLanguage = 'ko' | 'en'

/** An open question of any thread. */
export type WaitingQuestion = {
  /** The agent of the run that asks. */
  agent: string
  /** The id of the question. The answer names it. */
  id: string
  /** Why the run waits: a node asks, a breakpoint was reached, or it is unknown whether a call happened that must not be repeated. */
  kind: QuestionKind
  /** The node that asks. */
  node: string
  /** Why the last answer was rejected. */
  problem?: string
  /** The question. For a question about a tool, `answer` is an example of an answer. A question of the kind `effect_unknown` takes `{"result": …}` if the call happened, and `{"retry": true}` if it did not and may be made. */
  question: InterruptQuestion | Json
  /** The run that asks. It takes the answer. It may be an earlier run of the thread. */
  run: string
  /** When the run started, in milliseconds since 1970. */
  since: number | null
  /** The thread of the run that asks. */
  thread: string
}

/** The open questions of all threads. */
export type WaitingQuestionList = {
  /** The questions; those of the newest run come first. */
  questions: WaitingQuestion[]
}
