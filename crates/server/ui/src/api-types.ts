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

/** What an agent shows beside the words of its answer: as `data` of a delta, and in the note `events` of its step on record. */
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

/** The results of all cases. */
export type AgentEvalReport = {
  /** The result of each case. */
  cases: EvalCaseOutcome[]
  /** What changed since the report before it. */
  changes: EvalChange[]
  /** When the last question was answered, in milliseconds since 1970. */
  ended_at: number
  /** The model that answered. */
  model: string
  /** What the questions were asked with. */
  variant: EvalVariant
}

/** How a graph is shown. */
export type AgentGraphFormat = 'json' | 'svg' | 'mermaid'

/** An agent. */
export type AgentInfo = {
  /** Whether it is talked to with messages. Any other graph takes `input` and is shown as state and steps. */
  chat: boolean
  /** The most tokens that the agent sends to a model in one request. */
  context_tokens: number
  /** What the agent does, in English. */
  en: string
  /** Whether menus leave it out: an agent that others run as a subgraph. It can be asked by its name all the same. */
  hidden: boolean
  /** The name of the agent in requests. */
  id: string
  /** What the agent does, in Korean. */
  ko: string
  /** The model that answers; none for a graph of your own. */
  model?: ModelInfo
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
  /** The article, as people write it in the language of the document: `제5조`, `Article 5`. */
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
  /** Whether the document is one of the samples that come with the program. */
  sample?: boolean
  /** Where the quote starts in the text of the document, in bytes. */
  start: number
  /** What a person calls the place: document and headings. */
  title: string
  /** The version of the document. */
  version: string
}

/** Whose document a source is. */
export type AnswerSourceKind = 'general' | 'user' | 'standard'

/** A graph with its settings. */
export type Assistant = {
  /** The id of the assistant. */
  assistant_id: string
  /** Settings of its runs. */
  config: { [key: string]: Json }
  /** Values that its nodes read. */
  context: { [key: string]: Json }
  /** When it was made. */
  created_at: string
  /** What it does. */
  description: string | null
  /** The name of its graph. */
  graph_id: string
  /** Free pairs. */
  metadata: { [key: string]: Json }
  /** What people call it. */
  name: string
  /** When it last changed. */
  updated_at: string
  /** The number of its version. */
  version: number
}

/** A graph as LangGraph's clients draw it. */
export type AssistantGraph = {
  /** The edges. */
  edges: Json[]
  /** The nodes. */
  nodes: Json[]
}

/** By what assistants are sorted. */
export type AssistantOrder = 'assistant_id' | 'graph_id' | 'name' | 'created_at' | 'updated_at'

/** The schemas of a graph. */
export type AssistantSchemas = {
  /** Settings of runs. */
  config_schema: Json
  /** Values that nodes read. */
  context_schema: Json
  /** The graph. */
  graph_id: string
  /** What a run takes. */
  input_schema: Json
  /** What a run gives. */
  output_schema: Json
  /** What a thread holds. */
  state_schema: Json
}

/** A checkpoint, as clients name one to page on. */
export type BeforeBody = string | CheckpointBody | {
  /** The configuration. */
  configurable: CheckpointBody
}

/** The budget of a month. */
export type BudgetInfo = {
  /** The budget, in millionths of a US dollar. */
  limit_micros: number
  /** What was spent of it since the month began (UTC). */
  spent_micros: number
}

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

/** A call of a tool, or of a program over HTTP. */
export type CallNote = {
  /** When it was made, in milliseconds since 1970. */
  at: number
  /** The id that the model gave the call. */
  call?: string
  /** Whether it failed. */
  failed: boolean
  /** What was called. */
  kind: CallNoteKind
  /** How long it took, in milliseconds. */
  ms: number
  /** The name of the tool, or the node that made the call. */
  name: string
  /** The id of its span in the trace of the run. */
  span: string
}

/** What a `CallNote` is of. */
export type CallNoteKind = 'tool' | 'http' | 'search'

/** What happens to what a cancelled run did. */
export type CancelAction = 'interrupt' | 'rollback'

/** Which runs are cancelled. */
export type CancelRunsBody = {
  /** Their ids. */
  run_ids: string[]
  /** The thread. */
  thread_id: string
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

/** A request for a chat completion. A parameter of OpenAI's API that is not here is rejected with `400`. */
export type ChatCompletionBody = {
  /** Maximum number of tokens of a reply of the model. */
  max_completion_tokens?: number | null
  /** The same, under its older name. */
  max_tokens?: number | null
  /** The conversation. The last message of the user is the question. Tool results at its end continue the run that waits for them. */
  messages: { [key: string]: Json }[]
  /** Texts by name. They are stored with the run. `thread_id` is the thread to continue. */
  metadata?: { [key: string]: Json } | null
  /** The name of the agent. */
  model: string
  /** Whether a reply of the model can have several tool calls. The default is `true`. */
  parallel_tool_calls?: boolean | null
  /** `text`, `json_object` or `json_schema`. An answer is checked by the schema; one that does not fit is requested once more. */
  response_format?: { [key: string]: Json } | null
  /** The same, under its newer name. Stored beside it. */
  safety_identifier?: string | null
  /** Asks the model for the same choice of words again. */
  seed?: number | null
  /** A text at which a reply of the model ends, or up to four. */
  stop?: StopTexts | null
  /** Whether the answer is streamed. */
  stream?: boolean | null
  /** Options of a stream. */
  stream_options?: CompletionStreamOptions | null
  /** How freely words of the answer are chosen. */
  temperature?: number | null
  /** `auto`, `none`, `required` or a function of `tools`. It applies to `tools`, not to the tools of the agent. */
  tool_choice?: Json
  /** Functions that the client runs. The agents `assistant` and `react` offer them to the model. */
  tools?: { [key: string]: Json }[] | null
  /** Only the likeliest words that together have this probability are chosen from. */
  top_p?: number | null
  /** Who the question is from. Stored with the run. */
  user?: string | null
}

/** The status of an answer that is not there yet. */
export type ChatPauseStatus = 'paused'

/** A checkpoint as clients name one. */
export type CheckpointBody = {
  /** Its id. */
  checkpoint_id?: string | null
  /** Checkpoints of graphs inside; not used. */
  checkpoint_map?: { [key: string]: Json } | null
  /** The graph inside the graph; only the outermost one is supported. */
  checkpoint_ns?: string | null
  /** The thread. */
  thread_id?: string | null
}

/** The name of a checkpoint. */
export type CheckpointRef = {
  /** The id of the checkpoint. */
  checkpoint_id: string
  /** The graph inside the graph; always empty. */
  checkpoint_ns: string
  /** The thread. */
  thread_id: string
}

/** A command. */
export type CommandBody = {
  /** The number that its answer has. */
  id: number
  /** `run.start` or `input.respond`. */
  method: string
  /** What belongs to it. */
  params?: { [key: string]: Json }
}

/** Options of a stream. */
export type CompletionStreamOptions = {
  /** Whether the last chunk has the usage. */
  include_usage?: boolean
}

/** Which assistants are counted. */
export type CountAssistantsBody = {
  /** Only those of this graph. */
  graph_id?: string | null
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** Only those with this in their names. Upper and lower case are the same. */
  name?: string | null
}

/** Which crons are counted. */
export type CountCronsBody = {
  /** Only those of this assistant. */
  assistant_id?: string | null
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** Only those of this thread. */
  thread_id?: string | null
}

/** Which threads are counted. */
export type CountThreadsBody = {
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** Only those in this status. */
  status?: ThreadStatus | null
  /** Only those whose state has these values. */
  values?: { [key: string]: Json } | null
}

/** An assistant to store. */
export type CreateAssistantBody = {
  /** Its id, a UUID. The default is a new one. */
  assistant_id?: string | null
  /** Settings of its runs. */
  config?: RunConfig | null
  /** Values that its nodes read. */
  context?: { [key: string]: Json } | null
  /** What it does. */
  description?: string | null
  /** The name of its graph. */
  graph_id: string
  /** What happens when it exists. The default is `raise`. */
  if_exists?: IfExists | null
  /** Free pairs. */
  metadata?: { [key: string]: Json } | null
  /** What people call it. The default is `Untitled`. */
  name?: string | null
}

/** A thread to make. */
export type CreateThreadBody = {
  /** The graph that is to run on it. */
  graph_id?: string | null
  /** What happens when it exists. The default is `raise`. */
  if_exists?: IfExists | null
  /** Free pairs. */
  metadata?: { [key: string]: Json } | null
  /** Its id. The default is a new one. */
  thread_id?: string | null
}

/** A cron to make. */
export type CronBody = {
  /** The id of an assistant, or the name of its graph. */
  assistant_id: string
  /** Settings of its runs. */
  config?: RunConfig | null
  /** Values that all nodes of its runs can read. */
  context?: { [key: string]: Json } | null
  /** When a step is stored. Both values behave alike: Doran stores a step before it sends it. */
  durability?: StepDurability | null
  /** Whether it starts runs. The default is `true`. */
  enabled?: boolean | null
  /** The time after which it starts no run, such as `2026-12-24T18:00:00+09:00`. */
  end_time?: string | null
  /** The values that each run starts with. */
  input?: Json
  /** Free pairs, of the cron and of its runs. */
  metadata?: { [key: string]: Json } | null
  /** What happens when the thread has a run already. */
  multitask_strategy?: MultitaskStrategy | null
  /** What happens to the threads of its runs: `keep`, the default. */
  on_run_completed?: OnCompletion | null
  /** Five fields: minute, hour, day of month, month, day of week. */
  schedule: string
  /** What is streamed to those who join its runs. The default is `values`. */
  stream_mode?: OneOrMany2 | null
  /** Whether `custom` events are stored: only `false`, the default. All other events always are. */
  stream_resumable?: boolean | null
  /** The name of the time zone of these, such as `Asia/Seoul`. The default is `UTC`. */
  timezone?: string | null
}

/** By what crons are sorted. */
export type CronOrder = 'cron_id' | 'assistant_id' | 'thread_id' | 'next_run_date' | 'end_time' | 'created_at' | 'updated_at'

/** What the runs of a day used. */
export type DayUsageInfo = {
  /** The cost in millionths of a US dollar. */
  cost_micros: number
  /** Tokens that models read. */
  input_tokens: number
  /** Tokens that models wrote. */
  output_tokens: number
  /** The number of runs. */
  runs: number
  /** When the day began, in milliseconds since 1970. */
  start: number
}

/** A question of a run to a person, with the answer once there is one. */
export type DecisionInfo = {
  /** The answer; absent while there is none. */
  answer?: Json
  /** When it was answered, in milliseconds since 1970. */
  answered: number | null
  /** When it was asked, in milliseconds since 1970. */
  asked: number
  /** The id of the question. The answer names it. */
  id: string
  /** Why the run waits: a node asks, a breakpoint was reached, or it is unknown whether a call happened that must not be repeated. */
  kind: QuestionKind
  /** The node that asks. */
  node: string
  /** Why the last answer was rejected. */
  problem?: string
  /** The question. `answer` is an example of an answer to a question about a tool, to one of the kind `effect_unknown`, which takes `{"result": …}` if the call happened and `{"retry": true}` if it did not and may be made, and to a breakpoint, which takes any. */
  question: InterruptQuestion | Json
  /** The run that asks. It takes the answer. It may be an earlier run of the thread. */
  run: string
}

/** An item to delete. */
export type DeleteItemBody = {
  /** What it is called there. */
  key: string
  /** Where it lies. */
  namespace: string[]
}

/** What runs used whose threads were deleted. */
export type DeletedUsageInfo = {
  /** The cost in millionths of a US dollar. */
  cost_micros: number
  /** Tokens that models read. */
  input_tokens: number
  /** Tokens that models wrote. */
  output_tokens: number
  /** The number of runs. */
  runs: number
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
  /** The articles of a contract or the headings of a document. */
  outline: OutlineEntry[]
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

/** A request for embeddings. A parameter of OpenAI's API that is not here is rejected with `400`. */
export type EmbeddingBody = {
  /** How many numbers a vector has. It must be what the encoder gives. */
  dimensions?: number | null
  /** The format of the vectors. The default is `float`. */
  encoding_format?: EncodingFormat | null
  /** A text or a list of texts. Lists of tokens are not supported. */
  input: EmbeddingInput
  /** The name of the encoder. `built-in` is enough for the built-in one. */
  model: string
}

/** One text or several. */
export type EmbeddingInput = string | string[]

/** The format of a vector. */
export type EncodingFormat = 'float' | 'base64'

/** What an entry is. The numbers are the stored form. */
export type EntryKind = 'started' | 'step' | 'inner' | 'paused' | 'resumed' | 'restarted' | 'finished' | 'failed' | 'cancelled' | 'edited'

/** A question with what is expected of its turn. */
export type EvalCaseInfo = {
  /** The agent that is asked. */
  agent: string
  /** The question. */
  ask: string
  /** Earlier questions of the same conversation. */
  before?: string[]
  /** What is expected. Something has to be. */
  expect: EvalExpectation
  /** Why this case is a known failure. */
  fails?: string
  /** The name of the case, which no other case of the set has. */
  id: string
}

/** The result of one case. */
export type EvalCaseOutcome = {
  /** Who was asked. */
  agent: string
  /** What did not hold. */
  failures: FailedExpectation[]
  /** The case. */
  id: string
  /** Why the case is a known failure. */
  known?: string
  /** What was seen. */
  observed: ObservedTurn
}

/** What changed for a case since an earlier report. */
export type EvalChange = {
  change: 'broke'
  /** The case. */
  id: string
} | {
  change: 'mended'
  /** The case. */
  id: string
} | {
  /** As it was. */
  before: string
  change: 'answer'
  /** The case. */
  id: string
  /** As it is. */
  now: string
} | {
  /** As it was. */
  before: number
  change: 'model_calls'
  /** The case. */
  id: string
  /** As it is. */
  now: number
} | {
  /** As it was. */
  before: number
  change: 'cost'
  /** The case. */
  id: string
  /** As it is. */
  now: number
} | {
  change: 'new'
  /** The case. */
  id: string
} | {
  change: 'gone'
  /** The case. */
  id: string
}

/** Which documents a set is about. */
export type EvalDocuments = 'library' | 'samples'

/** Expectations. A field that is not set is not checked. */
export type EvalExpectation = {
  /** The tool that needs approval. If not set, the run must not ask. */
  asks?: string
  /** Words of the answer. */
  contains?: string[]
  /** The code of the error that it ends with. Without it, it must end without one. */
  error?: string
  /** Words that are not in the answer. */
  lacks?: string[]
  /** How many models were asked. */
  model_calls?: number
  /** Maximum cost in dollars, at least 0. */
  most_cost?: number
  /** The nodes that ran, in order. */
  path?: string[]
  /** The route the agent chose; see `ObservedTurn::route`. */
  route?: string
  /** Parts of the titles of what is cited: each is cited, and nothing else is. */
  sources?: string[]
  /** The tools that ran, each named once, in the order of their first call, and no others. */
  tools?: string[]
}

/** A run of a set. */
export type EvalRunInfo = {
  /** The case that is asked now. */
  case: string | null
  /** How many questions were answered. */
  done: number
  /** Why it failed, in English. */
  en: string | null
  /** How many did not hold. */
  failed: number
  /** The id of the run. */
  id: string
  /** The same in Korean. */
  ko: string | null
  /** The set. */
  set: string
  /** When it was started, in milliseconds since 1970. */
  started_at: number
  /** How it stands. */
  status: EvalRunStatus
  /** How many questions there are, for all variants together. */
  total: number
  /** What it is asked with. */
  variants: EvalVariant[]
}

/** How the run of a set stands. */
export type EvalRunStatus = 'running' | 'finished' | 'stopped' | 'failed' | 'interrupted'

/** A set with its cases and last reports. */
export type EvalSetInfo = {
  /** The cases. */
  cases: EvalCaseInfo[]
  /** Which documents it is about. */
  documents: EvalDocuments
  /** Whether the caller may change and run it. */
  may_change: boolean
  /** The name. */
  name: string
  /** The last report of each variant, the newest first. */
  reports: AgentEvalReport[]
  /** The run of this set that goes on or ended last. */
  run: EvalRunInfo | null
}

/** The sets of a tenant. */
export type EvalSetList = {
  /** Whether the caller may change and run them. */
  may_change: boolean
  /** The sets, sorted by name. */
  sets: EvalSetSummary[]
}

/** A set in a list. */
export type EvalSetSummary = {
  /** How many cases it has. */
  cases: number
  /** When the last report was made, in milliseconds since 1970. */
  ended_at: number | null
  /** The name. */
  name: string
  /** How many cases passed in the last report. */
  passed: number | null
  /** Why its file cannot be read. */
  problem: string | null
}

/** What the questions of evaluations used. */
export type EvalUsageInfo = {
  /** The cost in millionths of a US dollar. */
  cost_micros: number
  /** Tokens that models read. */
  input_tokens: number
  /** Tokens that models wrote. */
  output_tokens: number
  /** The number of questions, earlier ones of the same conversation included. */
  runs: number
}

/** What the questions of a set are asked with, in place of what is set up. */
export type EvalVariant = {
  /** Instructions for every question. */
  instructions?: string
  /** The model that answers; without it, the model of each agent. */
  model?: string
}

/** A kind of events. */
export type EventChannel = 'values' | 'updates' | 'messages' | 'tools' | 'lifecycle' | 'input' | 'checkpoints' | 'tasks' | 'custom'

/** What is streamed. */
export type EventStreamBody = {
  /** Which kinds of events. */
  channels: EventChannel[]
  /** How deep below these. Events of graphs inside nodes are not sent. */
  depth?: number | null
  /** Only events of these graphs inside the graph. Those of the outermost one have an empty list. */
  namespaces?: string[][] | null
  /** Only events after the one with this number. */
  since?: number | null
}

/** An expectation that did not hold. */
export type FailedExpectation = {
  /** What was expected. */
  expected: string
  /** What was seen. */
  was: string
  /** The name of the expectation that failed. */
  what: string
}

/** What a person thinks of an answer. */
export type FeedbackBody = {
  /** Why. */
  note?: string
  /** The rating; `null` takes it back. */
  rating?: FeedbackRating | null
}

/** What a person thinks of an answer. */
export type FeedbackInfo = {
  /** Why. */
  note: string
  /** The rating. */
  rating: FeedbackRating
  /** The run that answered. */
  run: string
}

/** The rating of an answer. */
export type FeedbackRating = 'up' | 'down'

/** The format of a file. */
export type FileFormat = 'hwpx' | 'hwp' | 'pdf' | 'docx' | 'xlsx' | 'csv' | 'html' | 'markdown' | 'text'

/** Why an answer ended. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'filtered' | 'other'

/** A fork. */
export type ForkThreadBody = {
  /** The agent whose state it is. It is needed if the thread has no agent. */
  agent?: string | null
  /** With `state`: continue as if this node had just finished. The default is where the entry stands. */
  as_node?: string | null
  /** The log entry (`seq`) to continue from. The default is the newest entry. */
  at?: number | null
  /** Whether the nodes that are due after the entry run at once. `active` is then their run. */
  go_on?: boolean
  /** With `go_on`: nodes after which the run pauses. */
  pause_after?: string[]
  /** With `go_on`: nodes before which the run pauses. */
  pause_before?: string[]
  /** Replaces the state in the fork. Fields that are left out get their default. */
  state?: Json
  /** The title. The default is the title of the source. */
  title?: string | null
}

/** An item that was found. */
export type FoundItem = {
  /** When it was first put. */
  created_at: string
  /** What it is called there. */
  key: string
  /** Where it lies. */
  namespace: string[]
  /** How well it fits a query. Items are not searched by words. */
  score: number | null
  /** When it was last put. */
  updated_at: string
  /** What it holds. */
  value: { [key: string]: Json }
}

/** Items that were found. */
export type FoundItems = {
  /** The items. */
  items: FoundItem[]
}

/** Namespaces that were found. */
export type FoundNamespaces = {
  /** The namespaces. */
  namespaces: string[][]
}

/** A node that runs next. */
export type GotoBody = string | SendBody

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

/** Which states of a thread are listed. */
export type HistoryBody = {
  /** Only states before this checkpoint. */
  before?: BeforeBody | null
  /** Only the states that lead to this checkpoint. */
  checkpoint?: CheckpointBody | null
  /** The maximum number, from 1 to 1000. The default is 1. */
  limit?: number | null
  /** Only states whose metadata has these pairs. */
  metadata?: { [key: string]: Json } | null
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

/** What happens when a thread exists. */
export type IfExists = 'raise' | 'do_nothing'

/** What happens when a thread does not exist. */
export type IfNotExists = 'create' | 'reject'

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
  /** What the tool is given. */
  arguments: Json
  /** The id of the call. */
  call: string
  /** The request in English. */
  en: string
  /** The request in Korean. */
  ko: string
  /** The tool. */
  name: string
  type: 'client_tool'
} | {
  /** The question in English. */
  en: string
  /** The question in Korean. */
  ko: string
  type: 'question'
}

/** A cron as LangGraph's clients read it. */
export type LangGraphCron = {
  /** The assistant of its runs. */
  assistant_id: string
  /** When it was made. */
  created_at: string
  /** The id of the cron. */
  cron_id: string
  /** Whether it starts runs. */
  enabled: boolean
  /** The time after which it starts no run. */
  end_time: string | null
  /** Why its request cannot be read. It starts runs all the same and can be deleted. Absent if it can be read. */
  error?: string
  /** Free pairs, of the cron and of its runs. */
  metadata: { [key: string]: Json }
  /** When it starts the next run. */
  next_run_date: string | null
  /** What happens to the threads of its runs. They are kept. */
  on_run_completed: string | null
  /** The request that made it. */
  payload: { [key: string]: Json }
  /** Five fields: minute, hour, day of month, month, day of week. */
  schedule: string
  /** The thread of its runs. Without it each has a thread of its own. */
  thread_id: string | null
  /** The time zone of these. The default is UTC. */
  timezone: string | null
  /** When it was last changed, or started a run. */
  updated_at: string
  /** Always `null`: what belongs to a tenant belongs to all of its keys. */
  user_id: string | null
}

/** Something that a run waits for. */
export type LangGraphInterrupt = {
  /** The id to answer it by. */
  id: string
  /** What is asked. */
  value: Json
}

/** A run as LangGraph's clients read it. */
export type LangGraphRun = {
  /** Its assistant. */
  assistant_id: string
  /** When it was accepted. */
  created_at: string
  /** What it was started with. */
  kwargs: { [key: string]: Json }
  /** Free pairs. */
  metadata: { [key: string]: Json }
  /** What happened to the run before it. */
  multitask_strategy: MultitaskStrategy
  /** The id of the run. */
  run_id: string
  /** Where it stands. */
  status: LangGraphRunStatus
  /** Its thread. */
  thread_id: string
  /** When it last changed. */
  updated_at: string
}

/** Where a run stands. */
export type LangGraphRunStatus = 'pending' | 'running' | 'error' | 'success' | 'timeout' | 'interrupted'

/** A state of a thread, as LangGraph's clients read it. */
export type LangGraphState = {
  /** The checkpoint. */
  checkpoint: CheckpointRef | null
  /** The id of the checkpoint. */
  checkpoint_id: string | null
  /** When the checkpoint was written. */
  created_at: string | null
  /** What the thread waits for. */
  interrupts: LangGraphInterrupt[]
  /** Where the checkpoint came from. */
  metadata: { [key: string]: Json } | null
  /** The nodes that are due. */
  next: string[]
  /** The checkpoint before it. */
  parent_checkpoint: CheckpointRef | null
  /** The id of the checkpoint before it. */
  parent_checkpoint_id: string | null
  /** The tasks that are due, or what became of them. */
  tasks: Json[]
  /** The state, with messages as LangChain writes them. */
  values: Json
}

/** A thread as LangGraph's clients read it. */
export type LangGraphThread = {
  /** Settings of its last run. */
  config: { [key: string]: Json }
  /** When it was made. */
  created_at: string
  /** Why its last run failed. */
  error?: Json
  /** What it waits for, by task. */
  interrupts?: { [key: string]: Json }
  /** Free pairs. */
  metadata: { [key: string]: Json }
  /** When its state last changed. */
  state_updated_at: string
  /** Whether a run is under way or waits. */
  status: ThreadStatus
  /** The id of the thread. */
  thread_id: string
  /** When it last changed. */
  updated_at: string
  /** The state. */
  values: Json
}

/** A language of the people who use Doran. Everything a person reads is written in each. */
export type Language = 'ko' | 'en'

/** The version to use. */
export type LatestBody = {
  /** Its number. */
  version: number
}

/** A new thread. */
export type MakeThreadBody = {
  /** The agent that the thread is for. */
  agent?: string | null
  /** Instructions for the model, sent with every turn. */
  instructions?: string | null
  /** The model that answers, by the `id` of one of the models. `null` is the default model. */
  model?: string | null
  /** The temperature of answers. `null` leaves it to the model. */
  temperature?: number | null
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
  /** The model that wrote the message; `null` if a person or the program did. */
  model: string | null
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

/** The messages of a thread, along one branch of its log. */
export type MessageList = {
  /** What people were asked, oldest first. */
  decisions: DecisionInfo[]
  /** The `before` of the page with earlier messages; absent if there are none. */
  earlier?: number
  /** What people think of the answers. */
  feedback: FeedbackInfo[]
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

/** A model. */
export type ModelBody = {
  /** The id of the model, such as `ollama:qwen3:8b`. */
  model: string
}

/** A reply of a model. */
export type ModelCallNote = ModelRequestNote | CachedReplyNote | UnfinishedRequestNote

/** The model that a person chose, in place of the agent's own. */
export type ModelChoice = {
  /** Its name; without one, the agent's own model. */
  model?: string
  /** The temperature of answers; without one, the model's own. */
  temperature?: number
}

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

/** The key of a provider. */
export type ModelKeyBody = {
  /** The key. */
  key: SubmittedModelKey
}

/** Where the key of a provider comes from. */
export type ModelKeyOrigin = 'none' | 'environment' | 'stored'

/** What kind of thing answers. */
export type ModelKind = 'language' | 'extractive'

/** The models of a server. */
export type ModelList = {
  /** The model of each agent. */
  active: AgentModel[]
  /** Whether the caller may add models, store keys and choose the default. */
  may_change: boolean
  /** The models that a chat can choose. The default comes first. */
  options: ModelOption[]
}

/** Where models can be had. */
export type ModelOffers = {
  /** Providers that need a key. */
  providers: OfferedModelProvider[]
  /** Model servers that were found on this machine. */
  servers: OfferedModelServer[]
}

/** A model that a chat can choose. */
export type ModelOption = {
  /** Whether it was added on this server and can be removed. */
  added: boolean
  /** The name of the model in requests. */
  id: string
  /** Whether agents use it when a chat chooses none. */
  is_default: boolean
  /** The model. */
  model: ModelInfo
}

/** A request to a model, and what it took. */
export type ModelRequestNote = {
  /** When it was sent, in milliseconds since 1970. */
  at?: number
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
  /** The `request_digest` of the request as it was sent. */
  request?: string
  /** Which of the configured models was meant. */
  role: ModelRole
  /** The id of its span in the trace of the run. */
  span?: string
}

/** Which of the configured models is meant. */
export type ModelRole = 'small' | 'main'

/** What a model answered to a short message. */
export type ModelTest = {
  /** Why there is no answer. */
  error?: ModelTestError
  /** The time it took, in milliseconds. */
  ms: number
  /** Whether it answered. */
  ok: boolean
  /** The answer. */
  text?: string
}

/** Why a model did not answer. */
export type ModelTestError = {
  /** The code, for programs. */
  code: string
  /** What to do, in English. */
  en: string
  /** What to do, in Korean. */
  ko: string
  /** What the provider said. */
  message: string
}

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

/** What happens when a thread has a run already. */
export type MultitaskStrategy = 'reject' | 'enqueue' | 'interrupt' | 'rollback'

/** What the runs of an agent or of an API key used. */
export type NamedUsageInfo = {
  /** The cost in millionths of a US dollar. */
  cost_micros: number
  /** Tokens that models read. */
  input_tokens: number
  /** The name. */
  name: string
  /** Tokens that models wrote. */
  output_tokens: number
  /** The number of runs. */
  runs: number
}

/** Which namespaces are listed. */
export type NamespacesBody = {
  /** The maximum number, from 1 to 1000. The default is 100. */
  limit?: number | null
  /** Longer ones are shortened to so many names, and listed once. */
  max_depth?: number | null
  /** How many to skip. */
  offset?: number | null
  /** How they begin. */
  prefix?: string[] | null
  /** How they end. */
  suffix?: string[] | null
}

/** A passage given to a model as material, with the number by which an answer cites it. */
export type NumberedPassage = {
  /** What it is taken from. */
  kind?: PassageKind
  /** The citation number; `[1]` in an answer means the passage numbered 1. */
  number: number
  /** The words themselves. */
  text: string
  /** What a person calls the place: document and heading. */
  title: string
}

/** What was seen of a turn. */
export type ObservedTurn = {
  /** What a person was asked about: a tool, or `question`. */
  asks?: string
  /** What they cost, in millionths of a dollar. */
  cost_micros: number
  /** The code of the error it ended with. */
  error?: string
  /** How many models were asked. */
  model_calls: number
  /** How long it took. */
  ms: number
  /** The nodes that ran. */
  path: string[]
  /** The answer. */
  response: string
  /** The route the agent chose: `rag` or `agent` for `assistant`; `out_of_scope`, `no_tools`, `execute_sequential` or `execute_parallel` for `contract`, as its first plan went; `tool`, `response` or `error` for `react`; `question`, `summary` or `chitchat` for `docqa`. For others the nodes, joined by `>`. */
  route: string
  /** Titles of what was cited. */
  sources: string[]
  /** The tools that ran. */
  tools: string[]
}

/** A provider of models. */
export type OfferedModelProvider = {
  /** The id of the provider: the part of a model id before the colon. */
  id: string
  /** Where its key comes from. */
  key: ModelKeyOrigin
  /** The name of the provider. */
  name: string
  /** The environment variable for its key. */
  variable: string
}

/** A model server on this machine. */
export type OfferedModelServer = {
  /** The address. */
  base_url: string
  /** Whether it is still loading its model. */
  loading: boolean
  /** The ids of its models, to be used in requests. */
  models: string[]
  /** The name of the server program. */
  name: string
}

/** What happens to the thread of a run that was started without one. */
export type OnCompletion = 'delete' | 'keep'

/** What happens to a run when its client goes away. */
export type OnDisconnect = 'cancel' | 'continue'

/** One value, or a list of them. */
export type OneOrMany = GotoBody | GotoBody[]

/** One value, or a list of them. */
export type OneOrMany2 = StreamMode | StreamMode[]

/** One value, or a list of them. */
export type OneOrMany3 = string | string[]

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
  /** The text; `null` if there are only tool calls. */
  content: string | null
  /** The same, under the name that other clients read. */
  reasoning?: string
  /** What the agent did before it answered. */
  reasoning_content?: string
  /** Always `null`. */
  refusal: null
  /** Always `assistant`. */
  role: string
  /** Tools that the client is to run. The run waits for the results. */
  tool_calls?: OpenAiToolCall[]
}

/** Tokens that a vendor had cached. */
export type OpenAiCachedTokens = {
  /** Not counted: always 0. */
  cached_tokens: number
}

/** The text of an answer. */
export type OpenAiChoice = {
  /** `stop`, `length` if a limit on tokens cut the answer, or `tool_calls` if the client is to run tools. */
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

/** A response that was deleted. */
export type OpenAiDeletedResponse = {
  /** Always `true`. */
  deleted: boolean
  /** The id of the response. */
  id: string
  /** Always `response`. */
  object: string
}

/** A text as a vector. */
export type OpenAiEmbedding = {
  /** The vector, of length 1. */
  embedding: OpenAiEmbeddingVector
  /** The place of the text in the request, from 0. */
  index: number
  /** Always `embedding`. */
  object: string
}

/** Texts as vectors. */
export type OpenAiEmbeddingList = {
  /** One for each text, in order. */
  data: OpenAiEmbedding[]
  /** The encoder, with the version of its weights. */
  model: string
  /** Always `list`. */
  object: string
  /** The tokens of the texts, estimated. */
  usage: OpenAiEmbeddingUsage
}

/** The tokens of texts. */
export type OpenAiEmbeddingUsage = {
  /** Estimated by the length of the texts. */
  prompt_tokens: number
  /** The same. */
  total_tokens: number
}

/** A vector. */
export type OpenAiEmbeddingVector = number[] | string

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
  /** The parameter of the request that is wrong. */
  param: string | null
  /** The kind of error, as OpenAI's API names it. */
  type: string
}

/** The function of a tool call. */
export type OpenAiFunctionCall = {
  /** The arguments, as JSON in a text. */
  arguments: string
  /** The name of the tool. */
  name: string
}

/** Why an answer is not whole. */
export type OpenAiIncompleteDetails = {
  /** Always `max_output_tokens`. */
  reason: string
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

/** A part of an answer. */
export type OpenAiOutputItem = {
  /** The text, in one part. */
  content: OpenAiOutputText[]
  /** The id of the item. */
  id: string
  /** Always `assistant`. */
  role: string
  /** `in_progress` or `completed`. */
  status: string
  type: 'message'
} | {
  /** The arguments, as JSON in a text. */
  arguments: string
  /** The id of the call. The result names it. */
  call_id: string
  /** The id of the item. */
  id: string
  /** The name of the tool. */
  name: string
  /** `in_progress` or `completed`. */
  status: string
  type: 'function_call'
}

/** The text of an answer. */
export type OpenAiOutputText = {
  /** One annotation for each source. */
  annotations: OpenAiTextAnnotation[]
  /** Always empty. */
  logprobs: null[]
  /** The text. */
  text: string
  /** Always `output_text`. */
  type: string
}

/** Tokens of thoughts. */
export type OpenAiReasoningTokens = {
  /** Not counted: always 0. */
  reasoning_tokens: number
}

/** A response: the answer of a run, or of the part of a run up to the tools that its client runs. */
export type OpenAiResponse = {
  /** Whether the request did not wait for the answer. */
  background: boolean
  /** When the run was accepted, or its tools were answered, in seconds since 1970. */
  created_at: number
  /** Why there is no answer. */
  error: OpenAiResponseError | null
  /** The id of the response. */
  id: string
  /** Why the answer is not whole. */
  incomplete_details: OpenAiIncompleteDetails | null
  /** The instructions. */
  instructions: string | null
  /** Maximum number of tokens of a reply of the model. */
  max_output_tokens: number | null
  /** Texts by name. */
  metadata: { [key: string]: Json }
  /** The name of the agent. */
  model: string
  /** Always `response`. */
  object: string
  /** The answer, and the tools that the client is to run. */
  output: OpenAiOutputItem[]
  /** Whether a reply of the model can have several tool calls. */
  parallel_tool_calls: boolean
  /** The response that this one follows. */
  previous_response_id: string | null
  /** The same, under its newer name. */
  safety_identifier: string | null
  /** How far it is. */
  status: OpenAiResponseStatus
  /** Always `true`. */
  store: boolean
  /** How freely words are chosen. */
  temperature: number | null
  /** The format of the answer. */
  text: { [key: string]: Json }
  /** Whether the model may, must or must not call tools. */
  tool_choice: Json
  /** The tools of the client. */
  tools: { [key: string]: Json }[]
  /** The probability of the words that are chosen from. */
  top_p: number | null
  /** Always `auto`: a long conversation is shortened. */
  truncation: string
  /** The tokens that it used; `null` until it is over. */
  usage: OpenAiResponseUsage | null
  /** Who the request is from. */
  user: string | null
}

/** Why there is no answer. */
export type OpenAiResponseError = {
  /** Stable, for programs. */
  code: string
  /** The error in English. */
  message: string
  /** The error in Korean. */
  message_ko: string
}

/** How far a response is. */
export type OpenAiResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled'

/** The tokens that a response used. */
export type OpenAiResponseUsage = {
  /** Tokens that models read. */
  input_tokens: number
  /** Always without cached tokens. */
  input_tokens_details: OpenAiCachedTokens
  /** Tokens that models wrote. */
  output_tokens: number
  /** Always without reasoning tokens. */
  output_tokens_details: OpenAiReasoningTokens
  /** The sum of both. */
  total_tokens: number
}

/** A source of an answer. */
export type OpenAiTextAnnotation = {
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
  /** Always `url_citation`. */
  type: string
  /** The address of the document's text on this server. */
  url: string
}

/** A tool that the client is to run. */
export type OpenAiToolCall = {
  /** The function. */
  function: OpenAiFunctionCall
  /** The id of the call. The result names it. */
  id: string
  /** Always `function`. */
  type: string
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

/** A place in the outline of a document. */
export type OutlineEntry = {
  /** The byte offset in the text at which it starts. */
  start: number
  /** The heading, or the number and title of the article. */
  title: string
}

/** The identifier of a passage, made of its document and its start offset. */
export type PassageId = string

/** What a passage is taken from. */
export type PassageKind = 'document' | 'contract' | 'standard_contract'

/** An error response (`application/problem+json`). */
export type Problem = {
  /** The code of the error, for programs. */
  code: string
  /** Details of this occurrence, in English. */
  detail?: string
  /** Details of this occurrence, in Korean. */
  detail_ko?: string
  /** The parameter of the request that is wrong. */
  parameter?: string
  /** The status of the response. */
  status: number
  /** The error in English. */
  title: string
  /** The error in Korean. */
  title_ko: string
  /** Always `about:blank`. */
  type: string
}

/** The models of a provider. */
export type ProviderModelList = {
  /** The ids of the models, to be used in requests. */
  models: string[]
}

/** An item to put. */
export type PutItemBody = {
  /** Fields that are searched by words: only `false`, as none is. */
  index?: boolean | null
  /** What it is called there. */
  key: string
  /** Where it lies. */
  namespace: string[]
  /** After how many minutes it is gone. The default is never. */
  ttl?: number | null
  /** What it holds. */
  value: { [key: string]: Json }
}

/** Another state. */
export type PutStateBody = {
  /** The agent whose state it is. The default is that of the newest run. It is needed if the thread has no agent. */
  agent?: string | null
  /** The state. Fields that are left out get their default. */
  state: Json
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
  /** The question. `answer` is an example of an answer to a question about a tool, to one of the kind `effect_unknown`, which takes `{"result": …}` if the call happened and `{"retry": true}` if it did not and may be made, and to a breakpoint, which takes any. */
  question: InterruptQuestion | Json
  /** The run that asks. It takes the answer. It may be an earlier run of the thread. */
  run: string
}

/** Why a run waits. */
export type QuestionKind = 'ask' | 'breakpoint' | 'timer' | 'effect_unknown'

/** A short name for what a request is for, such as `answer`. It is shown in traces and recordings. This crate knows `RequestLabel::ANSWER` alone; what other labels mean is agreed between the sender and a model that reads them. */
export type RequestLabel = string

/** How the best passages of a search were put in a new order. */
export type RerankingNote = {
  /** The model that was asked, or would have been. */
  by: string
  /** Why the order of the search was kept. */
  kept?: string
  /** The places of the passages in the search, counted from 1, in the new order. */
  order?: number[]
}

/** A request for a response. A parameter of OpenAI's API that is not here is rejected with `400`. */
export type ResponseBody = {
  /** Whether the request returns at once. `GET /v1/responses/{response}` has the answer later. */
  background?: boolean | null
  /** The thread to continue: its name, or an object with its name as `id`. */
  conversation?: Json
  /** A text, or a list of items: messages, function calls, their outputs, and references to items of responses. The last message of the user is the question. Outputs at its end continue the run that waits for them. */
  input: Json
  /** What applies to the conversation, with the rank of user text. */
  instructions?: string | null
  /** Maximum number of tokens of a reply of the model. */
  max_output_tokens?: number | null
  /** Texts by name. They are stored with the run. */
  metadata?: { [key: string]: Json } | null
  /** The name of the agent. */
  model: string
  /** Whether a reply of the model can have several tool calls. The default is `true`. */
  parallel_tool_calls?: boolean | null
  /** The response that this one follows. Its thread continues. */
  previous_response_id?: string | null
  /** The same, under its newer name. Stored beside it. */
  safety_identifier?: string | null
  /** Whether the answer is streamed. */
  stream?: boolean | null
  /** How freely words of the answer are chosen. */
  temperature?: number | null
  /** `format`: `text`, `json_object` or `json_schema`. An answer is checked by the schema; one that does not fit is requested once more. */
  text?: { [key: string]: Json } | null
  /** `auto`, `none`, `required` or a function of `tools`. It applies to `tools`, not to the tools of the agent. */
  tool_choice?: Json
  /** Functions that the client runs. The agents `assistant` and `react` offer them to the model. */
  tools?: { [key: string]: Json }[] | null
  /** Only the likeliest words that together have this probability are chosen from. */
  top_p?: number | null
  /** Who the request is from. Stored with the run. */
  user?: string | null
}

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
  /** Whether the run waits because the server does not have its agent any more. It continues when the agent is back, and it can be cancelled. */
  agent_missing?: boolean
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
  /** The first log entry of the run. */
  first: number | null
  /** The log entry that the run follows. Runs that follow the same entry are branches of the thread. */
  from: number | null
  /** The id of the run. */
  id: string
  /** The language of the answer. */
  language?: Language
  /** The last log entry of the run; `null` until it has ended. */
  last: number | null
  /** What its client noted with it, such as `user` and `metadata` of an OpenAI request. */
  metadata?: { [key: string]: Json }
  /** Requests sent to models, those that failed and were sent again included. */
  modelCalls?: number
  /** Nodes that ran, in order. */
  path?: string[]
  /** The beginning of the message that the run answers. */
  question?: string
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
  /** A summary of messages that are no longer sent to the model. */
  summary?: string
  /** The thread of the run. */
  thread: string
  /** Tools that were run, each named once. */
  toolsUsed?: string[]
  /** The tokens and the money that the run used. */
  usage: RunUsage
}

/** What a run does instead of taking an input. */
export type RunCommand = {
  /** The nodes that run next, and nothing else that was due. */
  goto?: OneOrMany | null
  /** The answer to what the thread waits for, or the answers by their ids. */
  resume?: Json
  /** Changes of the state, as if a node had made them. */
  update?: { [key: string]: Json } | null
}

/** Settings of a run. */
export type RunConfig = {
  /** `thread_id`, `checkpoint_id` and `checkpoint_ns`, as in the request itself; everything else as in `context`. */
  configurable?: { [key: string]: Json } | null
  /** Maximum number of steps of the run. */
  recursion_limit?: number | null
}

/** A run with its open questions. */
export type RunDetail = {
  /** The agent of the run. */
  agent: string
  /** Whether the run waits because the server does not have its agent any more. It continues when the agent is back, and it can be cancelled. */
  agent_missing?: boolean
  /** In the response to `cancel`: cancellation was requested, but the run has not ended yet. */
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
  /** The first log entry of the run. */
  first: number | null
  /** The log entry that the run follows. Runs that follow the same entry are branches of the thread. */
  from: number | null
  /** The id of the run. */
  id: string
  /** The last log entry of the run; `null` until it has ended. */
  last: number | null
  /** What its client noted with it, such as `user` and `metadata` of an OpenAI request. */
  metadata?: { [key: string]: Json }
  /** The beginning of the message that the run answers. */
  question?: string
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
  /** The message of the error. */
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

/** A request to run a graph. */
export type RunGraphBody = {
  /** The id of an assistant, or the name of its graph. */
  assistant_id: string
  /** Where the run starts. The default is where the thread stands. */
  checkpoint?: CheckpointBody | null
  /** The same by its id. */
  checkpoint_id?: string | null
  /** Answers what the thread waits for, or changes its state, instead of an input. */
  command?: RunCommand | null
  /** Settings of the run. */
  config?: RunConfig | null
  /** Values that all nodes of the run can read. They come before those of the assistant. */
  context?: { [key: string]: Json } | null
  /** When a step is stored. Both values behave alike: Doran stores a step before it sends it. */
  durability?: StepDurability | null
  /** What happens when the thread does not exist. */
  if_not_exists?: IfNotExists | null
  /** The values that the run starts with. Without them the run goes on where the thread stands. */
  input?: Json
  /** Nodes after which the run pauses; `*` for all. */
  interrupt_after?: OneOrMany3 | null
  /** Nodes before which the run pauses; `*` for all. */
  interrupt_before?: OneOrMany3 | null
  /** Free pairs of the run. */
  metadata?: { [key: string]: Json } | null
  /** What happens when the thread has a run already. */
  multitask_strategy?: MultitaskStrategy | null
  /** What happens to the thread of a run without one. The default is `delete`. */
  on_completion?: OnCompletion | null
  /** What happens to the run when the client goes away. The default is `continue`. */
  on_disconnect?: OnDisconnect | null
  /** What is streamed. The default is `values`. */
  stream_mode?: OneOrMany2 | null
  /** Whether `custom` events are stored, for those who join or come back. All other events always are. */
  stream_resumable?: boolean | null
  /** Whether steps of graphs inside nodes are streamed too. */
  stream_subgraphs?: boolean | null
}

/** A run. */
export type RunInfo = {
  /** The agent of the run. */
  agent: string
  /** Whether the run waits because the server does not have its agent any more. It continues when the agent is back, and it can be cancelled. */
  agent_missing?: boolean
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
  /** The first log entry of the run. */
  first: number | null
  /** The log entry that the run follows. Runs that follow the same entry are branches of the thread. */
  from: number | null
  /** The id of the run. */
  id: string
  /** The last log entry of the run; `null` until it has ended. */
  last: number | null
  /** What its client noted with it, such as `user` and `metadata` of an OpenAI request. */
  metadata?: { [key: string]: Json }
  /** The beginning of the message that the run answers. */
  question?: string
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

/** A page of the runs of all threads. */
export type RunPage = {
  /** The `before` of the next page; `null` on the last page. */
  next: string | null
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

/** Which assistants are listed. */
export type SearchAssistantsBody = {
  /** Only those of this graph. */
  graph_id?: string | null
  /** The maximum number, from 1 to 1000. The default is 10. */
  limit?: number | null
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** Only those with this in their names. Upper and lower case are the same. */
  name?: string | null
  /** How many to skip. */
  offset?: number | null
  /** Fields to return. The default is all. */
  select?: string[] | null
  /** By what they are sorted. The default is `created_at`. */
  sort_by?: AssistantOrder | null
  /** Which of them comes first. The default is `desc`. */
  sort_order?: SortOrder | null
}

/** Which crons are listed. */
export type SearchCronsBody = {
  /** Only those of this assistant. */
  assistant_id?: string | null
  /** Only those that start runs, or that do not. */
  enabled?: boolean | null
  /** The maximum number, from 1 to 1000. The default is 10. */
  limit?: number | null
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** How many to skip. */
  offset?: number | null
  /** Fields to return. The default is all. */
  select?: string[] | null
  /** By what they are sorted. The default is `created_at`. */
  sort_by?: CronOrder | null
  /** Which of them comes first. The default is `desc`. */
  sort_order?: SortOrder | null
  /** Only those of this thread. */
  thread_id?: string | null
}

/** A passage that a search found. */
export type SearchHit = {
  /** The article of the passage, in the language of the document: `제5조`, `Article 5`. */
  article: string | null
  /** The document of the passage. */
  document: DocumentId
  /** The byte offset in the document at which the passage ends. */
  end: number
  /** The page on which the passage starts, from 1. */
  page: number | null
  /** The id of the passage. */
  passage: PassageId
  /** Whether the document is one of the samples that come with the program. */
  sample?: boolean
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

/** A passage that a search found. */
export type SearchHitNote = {
  /** The document. */
  document: string
  /** The number by which the answer cites it. */
  number: number
  /** The id of the passage. */
  passage: string
  /** The score, comparable within one search only. */
  score: number
  /** The title of the document and the headings above the passage. */
  title: string
}

/** Which items are listed. */
export type SearchItemsBody = {
  /** What their fields hold: a value, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt` or `$lte` with one. */
  filter?: { [key: string]: Json } | null
  /** The maximum number, from 1 to 1000. The default is 10. */
  limit?: number | null
  /** How their namespaces begin. The default is any. */
  namespace_prefix?: string[] | null
  /** How many to skip. */
  offset?: number | null
}

/** A search in documents, and what it found. */
export type SearchNote = {
  /** The passages, as the model was given them. */
  hits: SearchHitNote[]
  /** What was searched for. */
  query: string
  /** How the passages were put in a new order, if they were to be. */
  reranking?: RerankingNote
  /** Other wordings that were searched for too. */
  wordings?: string[]
}

/** Which threads are listed. */
export type SearchThreadsBody = {
  /** Only these. */
  ids?: string[] | null
  /** The maximum number, from 1 to 1000. The default is 10. */
  limit?: number | null
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** How many to skip. */
  offset?: number | null
  /** Fields to return. The default is all. */
  select?: string[] | null
  /** By what they are sorted: by `updated_at`, the default. */
  sort_by?: ThreadOrder | null
  /** Which of them comes first: the newest, `desc`, the default. */
  sort_order?: SortOrder | null
  /** Only those in this status. */
  status?: ThreadStatus | null
  /** Only those whose state has these values. */
  values?: { [key: string]: Json } | null
}

/** A task of a node with an input of its own, which the node reads beside the state. */
export type SendBody = {
  /** The input. */
  input?: Json
  /** The node. */
  node: string
}

/** What the server is. */
export type ServerInfo = {
  /** What it supports. */
  flags: { [key: string]: Json }
  /** The version of Doran. */
  version: string
}

/** Whether the server answers. */
export type ServerOk = {
  /** Always `true`. */
  ok: boolean
}

/** Which comes first. */
export type SortOrder = 'asc' | 'desc'

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

/** What a set is asked with. */
export type StartEvalRun = {
  /** One report is made of each. An empty object asks with what is set up. */
  variants: EvalVariant[]
}

/** The message for an agent, or the input of a graph. */
export type StartRun = {
  /** The name of the agent. */
  agent: string
  /** The collection of documents to search. */
  collection?: string | null
  /** The document id of the contract that the message is about. */
  contract_id?: string | null
  /** A text that comes with the message and that the person did not type, such as a file. The model sees it as a quoted document and trusts it as any other document. */
  document?: string | null
  /** The log entry that the message follows. The default is the newest entry. What came after an older one stays in the log as another branch, and the agent does not see it. 0 is the beginning of the thread. */
  from?: number | null
  /** What to do when the thread has an active run: `reject` (the default), `enqueue`, `interrupt` or `rollback`. */
  if_busy?: IfBusy | null
  /** Images that belong to the message, as `data:image/TYPE;base64,DATA`. */
  images?: string[]
  /** The input of a graph instead of a message: an update of its state. */
  input?: { [key: string]: Json } | null
  /** The message. It must not be empty. */
  message?: string
  /** The model that answers this message, by the `id` of one of the models. The default is that of the thread, else that of the server. */
  model?: string | null
  /** Nodes after which the run pauses. */
  pause_after?: string[]
  /** Nodes before which the run pauses. */
  pause_before?: string[]
}

/** Questions to begin with, in both languages. */
export type StarterQuestions = {
  /** In English. */
  en: string[]
  /** In Korean. */
  ko: string[]
}

/** A checkpoint whose state is wanted. */
export type StateAtBody = {
  /** The checkpoint. */
  checkpoint: CheckpointBody
  /** Whether the states of graphs inside nodes are wanted. They are not kept. */
  subgraphs?: boolean | null
}

/** Where the change of a state is. */
export type StateUpdated = {
  /** The new checkpoint. */
  checkpoint: CheckpointRef
  /** Its id. */
  checkpoint_id: string
  /** The same, as a configuration. */
  configurable: CheckpointRef
}

/** When a step is stored. */
export type StepDurability = 'async' | 'sync'

/** The notes of a step that programs read. Each field is a note of its own, absent while it is empty; a step may have further notes for people. */
export type StepNotes = {
  /** Calls of tools and of programs over HTTP. */
  calls?: CallNote[]
  /** What the node showed, in order. */
  events?: AgentActivity[]
  /** Replies of models. */
  models?: ModelCallNote[]
  /** Searches in documents. */
  searches?: SearchNote[]
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

/** Texts at which a reply ends. */
export type StopTexts = string | string[]

/** An item as LangGraph's clients read it. */
export type StoreItem = {
  /** When it was first put. */
  created_at: string
  /** What it is called there. */
  key: string
  /** Where it lies. */
  namespace: string[]
  /** When it was last put. */
  updated_at: string
  /** What it holds. */
  value: { [key: string]: Json }
}

/** What of a run is streamed. */
export type StreamMode = 'values' | 'updates' | 'messages' | 'messages-tuple' | 'custom' | 'tasks' | 'checkpoints' | 'debug'

/** The key of a provider, as a client sent it. It prints nothing. */
export type SubmittedModelKey = string

/** The original source of a text. */
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
  /** Instructions for the model, sent with every turn. */
  instructions: string
  /** The model of the chat, by the `id` of one of the models; `null` for the default. */
  model: string | null
  /** Whether the thread is pinned to the top of lists. */
  pinned: boolean
  /** The temperature of answers; `null` leaves it to the model. */
  temperature: number | null
  /** The title; empty until the first message. */
  title: string
  /** When the thread last changed, in milliseconds since 1970. */
  updated: number
}

/** A page of threads. */
export type ThreadList = {
  /** The `cursor` of the next page; `null` on the last page. */
  next: string | null
  /** The threads, most recently changed first. */
  threads: ThreadInfo[]
}

/** A change of a thread. */
export type ThreadMetadataBody = {
  /** Pairs to set; a pair that is `null` is removed. */
  metadata?: { [key: string]: Json } | null
}

/** By what threads are sorted. */
export type ThreadOrder = 'updated_at'

/** The state of a thread after an entry. */
export type ThreadStateInfo = {
  /** The requests that the node in `explain` would send to models in this state. */
  asks?: Json[]
  /** Why the node in `explain` cannot make its requests in this state. */
  asks_error?: string
  /** The digests of `asks`. A request with the digest of a model call (`request`) is the one that was sent. */
  digests?: string[]
  /** The nodes that are due next. */
  next: string[]
  /** The entry. */
  seq: number
  /** The state, as the agent defines it. */
  state: Json
}

/** Whether a run of a thread is under way or waits. */
export type ThreadStatus = 'idle' | 'busy' | 'interrupted' | 'error'

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
  /** The model that was chosen for the turn. */
  chosen?: ModelChoice
  /** Whether these are steps of a subagent, whose text is not shown to the person. */
  is_subagent?: boolean
  /** The language the person is answered in. */
  language: Language
  /** Requests sent to models, repairs and failed ones included. */
  model_calls: number
  /** Nodes that ran, in order. */
  path: string[]
  /** Whether the model was already made to call a tool, where the client wanted that. */
  tool_choice_applied?: boolean
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
  /** Whether the messages in this update only replace earlier ones. */
  rewrites_messages?: boolean
  /** What the answer in this update rests on. */
  sources?: AnswerSource[]
}

/** A request to a model that brought no reply. Its tokens are an estimate; a request that the vendor refused took none. */
export type UnfinishedRequestNote = {
  /** When it was sent, in milliseconds since 1970. */
  at?: number
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
  /** The id of its span in the trace of the run. */
  span?: string
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

/** A change of an assistant. */
export type UpdateAssistantBody = {
  /** Settings of its runs. */
  config?: RunConfig | null
  /** Values that its nodes read. */
  context?: { [key: string]: Json } | null
  /** What it does. `null` removes it. */
  description?: string | null
  /** The name of its graph. */
  graph_id?: string | null
  /** Pairs to set. */
  metadata?: { [key: string]: Json } | null
  /** What people call it. */
  name?: string | null
}

/** A change of a cron: fields of the request that made it. `end_time` may be `null`, which removes it. */
export type UpdateCronBody = { [key: string]: Json }

/** Changes to a document. What is left out stays as it is. */
export type UpdateDocumentBody = {
  /** The collection of the document. */
  collection?: string | null
  /** The kind of document: `general`, `contract` or `standard:KIND`. */
  kind?: string | null
}

/** A change of a state. */
export type UpdateStateBody = {
  /** The node that is taken to have made them: the thread goes on after it. */
  as_node?: string | null
  /** The checkpoint that is changed. The default is the newest. */
  checkpoint?: CheckpointBody | null
  /** The same by its id. */
  checkpoint_id?: string | null
  /** The changes, as if a node had made them. */
  values?: { [key: string]: Json } | null
}

/** Changes to a thread. What is left out stays as it is. */
export type UpdateThreadBody = {
  /** Instructions for the model, sent with every turn. */
  instructions?: string | null
  /** The model that answers, by the `id` of one of the models. `null` is the default model. */
  model?: string | null
  /** Whether the thread is pinned to the top of lists. */
  pinned?: boolean | null
  /** The temperature of answers. `null` leaves it to the model. */
  temperature?: number | null
  /** The title of the thread. */
  title?: string | null
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
  /** The address of the document's text on this server. */
  url: string
}

/** What runs and evaluations used. */
export type UsageInfo = {
  /** The budget of the month, if there is one. */
  budget?: BudgetInfo
  /** The usage of each agent. Only with `days`. */
  by_agent?: NamedUsageInfo[]
  /** The usage of each day, newest first. Only with `days`. */
  by_day?: DayUsageInfo[]
  /** The usage of each API key, without `deleted`; runs without one have an empty name. Only with `days`. */
  by_key?: NamedUsageInfo[]
  /** The usage of each model, without `deleted`. Only with `thread` or `days`. */
  by_model?: ModelUsageInfo[]
  /** Whether all runs and steps were counted, not only the newest 20,000 runs and 20,000 steps of a thread, and none of the numbers is an estimate. What a request took that was stopped or cut off is an estimate, and so is all that the built-in model takes; what a request took that was under way when the server died is not counted. Of runs that finished, this is known only with `thread` or `days`. */
  complete: boolean
  /** The cost in millionths of a US dollar. */
  cost_micros: number
  /** What of all this runs used whose threads were deleted. Not with `thread`. */
  deleted?: DeletedUsageInfo
  /** What of all this evaluations used, if they used anything. Not with `thread`. */
  evals?: EvalUsageInfo
  /** Tokens that models read. */
  input_tokens: number
  /** Won for a US dollar, if the settings have a rate. */
  krw_per_usd?: number
  /** Tokens that models wrote. */
  output_tokens: number
  /** The number of runs, and of questions of evaluations. */
  runs: number
}

/** Which versions are listed. */
export type VersionsBody = {
  /** The maximum number, from 1 to 1000. The default is 10. */
  limit?: number | null
  /** Only those with these pairs. */
  metadata?: { [key: string]: Json } | null
  /** How many to skip. */
  offset?: number | null
}

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
  /** The question. `answer` is an example of an answer to a question about a tool, to one of the kind `effect_unknown`, which takes `{"result": …}` if the call happened and `{"retry": true}` if it did not and may be made, and to a breakpoint, which takes any. */
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
