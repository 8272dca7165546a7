// Requests of the HTTP API, generated from the routes by `cargo xtask openapi`. Do not edit.
//
// Each function makes the request of one operation, with the type of its response. Sending it is up to the caller.

import type {
  AddedDocument, AgentGraphFormat, AgentList, ChatAnswer, DocumentId, DocumentInfo, DocumentList, DocumentText, EvalCaseInfo, EvalRunInfo, EvalSetInfo, EvalSetList, FeedbackBody, ForkThreadBody, MakeThreadBody, MemoryFactList, MessageList, ModelBody, ModelKeyBody, ModelList, ModelOffers, ModelTest, ProviderModelList, PutStateBody, ResumeRunBody, RunDetail, RunList, RunPage, RunStatus, SearchHitList, SpecChatBody, StartEvalRun, StartRun, ThreadHistory, ThreadInfo, ThreadList, ThreadStateInfo, UpdateDocumentBody, UpdateThreadBody, UsageInfo, WaitingQuestionList,
} from './api-types'

/** A request. */
export interface ApiCall {
  method: string
  path: string
  headers?: Record<string, string>
  /** The body, to be sent as JSON. */
  json?: unknown
}

declare const response: unique symbol
/** A request that is answered with JSON of this type. */
export type JsonCall<T> = ApiCall & { readonly [response]: { json: T } }
/** A request that is answered without a body. */
export type EmptyCall = ApiCall & { readonly [response]: { empty: true } }
/** A request whose answer is a stream, a file or a text. */
export type RawCall = ApiCall & { readonly [response]: { raw: true } }

type QueryValue = string | number | boolean | string[] | undefined

const encodePart = encodeURIComponent

function query(values: Record<string, QueryValue>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [value].flat().map((one) => [name, String(one)]))
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

function headers(values: Record<string, string | number | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]]))
}

/** Lists the agents. */
export const listAgentsCall = (): JsonCall<AgentList> =>
  ({ method: 'GET', path: '/api/agents' }) as JsonCall<AgentList>

/** Returns the graph of an agent. */
export const agentGraphCall = (at: { agent: string; format?: AgentGraphFormat | undefined }): RawCall =>
  ({ method: 'GET', path: `/api/agents/${encodePart(at.agent)}/graph${query({ format: at.format })}` }) as RawCall

/** Lists the open questions of all threads. */
export const listApprovalsCall = (): JsonCall<WaitingQuestionList> =>
  ({ method: 'GET', path: '/api/approvals' }) as JsonCall<WaitingQuestionList>

/** Sends a message and waits for the answer. */
export const chatCall = (at: { idempotencyKey?: string | undefined }, json: SpecChatBody): JsonCall<ChatAnswer> =>
  ({ method: 'POST', path: '/api/chat', headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as JsonCall<ChatAnswer>

/** Asks about contracts and streams `thinking`, `token`, `sources` and `done`. */
export const contractChatCall = (at: { idempotencyKey?: string | undefined }, json: SpecChatBody): RawCall =>
  ({ method: 'POST', path: '/api/contract/chat', headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as RawCall

/** Lists the documents and their ingestion states. */
export const listDocumentsCall = (at: { thread?: string | undefined } = {}): JsonCall<DocumentList> =>
  ({ method: 'GET', path: `/api/documents${query({ thread: at.thread })}` }) as JsonCall<DocumentList>

/** Uploads a file. The file is ingested after the response. */
export const addDocumentCall = (at: { collection?: string | undefined; kind?: string | undefined; name: string; origin?: string | undefined; thread?: string | undefined; idempotencyKey?: string | undefined }): JsonCall<AddedDocument> =>
  ({ method: 'POST', path: `/api/documents${query({ collection: at.collection, kind: at.kind, name: at.name, origin: at.origin, thread: at.thread })}`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }) }) as JsonCall<AddedDocument>

/** Deletes a document, its text and its passages. */
export const deleteDocumentCall = (at: { document: string; thread?: string | undefined }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/documents/${encodePart(at.document)}${query({ thread: at.thread })}` }) as EmptyCall

/** Returns a document. */
export const getDocumentCall = (at: { document: string; thread?: string | undefined }): JsonCall<DocumentInfo> =>
  ({ method: 'GET', path: `/api/documents/${encodePart(at.document)}${query({ thread: at.thread })}` }) as JsonCall<DocumentInfo>

/** Changes the kind or the collection of a document. */
export const updateDocumentCall = (at: { document: string }, json: UpdateDocumentBody): JsonCall<DocumentInfo> =>
  ({ method: 'PATCH', path: `/api/documents/${encodePart(at.document)}`, json }) as JsonCall<DocumentInfo>

/** Returns the file as it was uploaded. */
export const originalFileCall = (at: { document: string; thread?: string | undefined }): RawCall =>
  ({ method: 'GET', path: `/api/documents/${encodePart(at.document)}/file${query({ thread: at.thread })}` }) as RawCall

/** Returns the text of a document and its outline. */
export const documentTextCall = (at: { document: string; thread?: string | undefined }): JsonCall<DocumentText> =>
  ({ method: 'GET', path: `/api/documents/${encodePart(at.document)}/text${query({ thread: at.thread })}` }) as JsonCall<DocumentText>

/** Pauses, resumes, cancels or retries the ingestion of a document. */
export const changeDocumentCall = (at: { document: string; change: 'pause' | 'resume' | 'cancel' | 'retry'; idempotencyKey?: string | undefined }): JsonCall<DocumentInfo> =>
  ({ method: 'POST', path: `/api/documents/${encodePart(at.document)}/${encodePart(at.change)}`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }) }) as JsonCall<DocumentInfo>

/** Lists the evaluations. */
export const listEvalsCall = (): JsonCall<EvalSetList> =>
  ({ method: 'GET', path: '/api/evals' }) as JsonCall<EvalSetList>

/** Deletes an evaluation with its reports. */
export const deleteEvalCall = (at: { set: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/evals/${encodePart(at.set)}` }) as EmptyCall

/** Returns the cases of an evaluation and its last reports. */
export const getEvalCall = (at: { set: string }): JsonCall<EvalSetInfo> =>
  ({ method: 'GET', path: `/api/evals/${encodePart(at.set)}` }) as JsonCall<EvalSetInfo>

/** Deletes a case. The last one takes the evaluation with it. */
export const deleteEvalCaseCall = (at: { set: string; case: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/evals/${encodePart(at.set)}/cases/${encodePart(at.case)}` }) as EmptyCall

/** Adds a case or replaces it. A new evaluation begins with its first case. */
export const putEvalCaseCall = (at: { set: string; case: string }, json: EvalCaseInfo): EmptyCall =>
  ({ method: 'PUT', path: `/api/evals/${encodePart(at.set)}/cases/${encodePart(at.case)}`, json }) as EmptyCall

/** Stops the run of an evaluation. */
export const stopEvalRunCall = (at: { set: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/evals/${encodePart(at.set)}/run` }) as EmptyCall

/** Asks every question of an evaluation, once for each variant, in the background. */
export const startEvalRunCall = (at: { set: string }, json: StartEvalRun): JsonCall<EvalRunInfo> =>
  ({ method: 'PUT', path: `/api/evals/${encodePart(at.set)}/run`, json }) as JsonCall<EvalRunInfo>

/** Lists the facts that agents were asked to remember. */
export const listMemoryCall = (at: { q?: string | undefined } = {}): JsonCall<MemoryFactList> =>
  ({ method: 'GET', path: `/api/memory${query({ q: at.q })}` }) as JsonCall<MemoryFactList>

/** Deletes a fact. */
export const forgetFactCall = (at: { fact: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/memory/${encodePart(at.fact)}` }) as EmptyCall

/** Lists the models in use and those that a chat can choose. */
export const listModelsCall = (): JsonCall<ModelList> =>
  ({ method: 'GET', path: '/api/models' }) as JsonCall<ModelList>

/** Makes a model the default, now and after a restart. */
export const chooseDefaultModelCall = (json: ModelBody): JsonCall<ModelList> =>
  ({ method: 'PUT', path: '/api/models/default', json }) as JsonCall<ModelList>

/** Deletes the stored key of a provider. */
export const deleteModelKeyCall = (at: { provider: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/models/keys/${encodePart(at.provider)}` }) as EmptyCall

/** Stores the key of a provider, encrypted. It is never returned. */
export const storeModelKeyCall = (at: { provider: string }, json: ModelKeyBody): EmptyCall =>
  ({ method: 'PUT', path: `/api/models/keys/${encodePart(at.provider)}`, json }) as EmptyCall

/** Lists model servers on this machine and providers. */
export const listModelOffersCall = (): JsonCall<ModelOffers> =>
  ({ method: 'GET', path: '/api/models/offers' }) as JsonCall<ModelOffers>

/** Lists the models of a provider, with the key that is known. */
export const listProviderModelsCall = (at: { provider: string }): JsonCall<ProviderModelList> =>
  ({ method: 'GET', path: `/api/models/providers/${encodePart(at.provider)}` }) as JsonCall<ProviderModelList>

/** Sends a short message to a model. */
export const testModelCall = (json: ModelBody): JsonCall<ModelTest> =>
  ({ method: 'PUT', path: '/api/models/test', json }) as JsonCall<ModelTest>

/** Takes away a model that was added. */
export const removeModelCall = (at: { model: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/models/${encodePart(at.model)}` }) as EmptyCall

/** Lets chats choose a model. */
export const addModelCall = (at: { model: string }): JsonCall<ModelList> =>
  ({ method: 'PUT', path: `/api/models/${encodePart(at.model)}` }) as JsonCall<ModelList>

/** Lists the runs of all threads, newest first. */
export const listAllRunsCall = (at: { agent?: string | undefined; before?: string | undefined; limit?: number | undefined; status?: RunStatus | undefined } = {}): JsonCall<RunPage> =>
  ({ method: 'GET', path: `/api/runs${query({ agent: at.agent, before: at.before, limit: at.limit, status: at.status })}` }) as JsonCall<RunPage>

/** Searches the documents for passages. */
export const searchCall = (at: { collection?: string | undefined; document?: DocumentId[] | undefined; kind?: string[] | undefined; limit?: number | undefined; q: string }): JsonCall<SearchHitList> =>
  ({ method: 'GET', path: `/api/search${query({ collection: at.collection, document: at.document, kind: at.kind, limit: at.limit, q: at.q })}` }) as JsonCall<SearchHitList>

/** Lists threads, most recently changed first. */
export const listThreadsCall = (at: { cursor?: string | undefined; limit?: number | undefined; pinned?: boolean | undefined; q?: string | undefined } = {}): JsonCall<ThreadList> =>
  ({ method: 'GET', path: `/api/threads${query({ cursor: at.cursor, limit: at.limit, pinned: at.pinned, q: at.q })}` }) as JsonCall<ThreadList>

/** Creates an empty thread. */
export const makeThreadCall = (at: { idempotencyKey?: string | undefined }, json: MakeThreadBody): JsonCall<ThreadInfo> =>
  ({ method: 'POST', path: '/api/threads', headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as JsonCall<ThreadInfo>

/** Deletes a thread and everything in it. An active run ends. */
export const deleteThreadCall = (at: { thread: string }): EmptyCall =>
  ({ method: 'DELETE', path: `/api/threads/${encodePart(at.thread)}` }) as EmptyCall

/** Returns a thread. */
export const getThreadCall = (at: { thread: string }): JsonCall<ThreadInfo> =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}` }) as JsonCall<ThreadInfo>

/** Changes the title or the settings of a thread. */
export const updateThreadCall = (at: { thread: string }, json: UpdateThreadBody): JsonCall<ThreadInfo> =>
  ({ method: 'PATCH', path: `/api/threads/${encodePart(at.thread)}`, json }) as JsonCall<ThreadInfo>

/** Creates a thread that continues from a log entry of this one, which stays unchanged. */
export const forkThreadCall = (at: { thread: string; idempotencyKey?: string | undefined }, json: ForkThreadBody): JsonCall<ThreadInfo> =>
  ({ method: 'POST', path: `/api/threads/${encodePart(at.thread)}/fork`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as JsonCall<ThreadInfo>

/** Lists the log entries of a thread, oldest first. */
export const listHistoryCall = (at: { thread: string; after?: number | undefined; limit?: number | undefined }): JsonCall<ThreadHistory> =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}/history${query({ after: at.after, limit: at.limit })}` }) as JsonCall<ThreadHistory>

/** Lists the messages of a thread. */
export const listMessagesCall = (at: { thread: string; at?: number | undefined; before?: number | undefined; limit?: number | undefined }): JsonCall<MessageList> =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}/messages${query({ at: at.at, before: at.before, limit: at.limit })}` }) as JsonCall<MessageList>

/** Lists the runs of a thread, newest first. */
export const listRunsCall = (at: { thread: string; before?: string | undefined; limit?: number | undefined }): JsonCall<RunList> =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}/runs${query({ before: at.before, limit: at.limit })}` }) as JsonCall<RunList>

/** Sends a message to an agent. */
export const startRunCall = (at: { thread: string; wait?: boolean | undefined; idempotencyKey?: string | undefined }, json: StartRun): RawCall =>
  ({ method: 'POST', path: `/api/threads/${encodePart(at.thread)}/runs${query({ wait: at.wait })}`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as RawCall

/** Returns a run. */
export const getRunCall = (at: { thread: string; run: string }): JsonCall<RunDetail> =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}/runs/${encodePart(at.run)}` }) as JsonCall<RunDetail>

/** Cancels a run. */
export const cancelRunCall = (at: { thread: string; run: string; idempotencyKey?: string | undefined }): JsonCall<RunDetail> =>
  ({ method: 'POST', path: `/api/threads/${encodePart(at.thread)}/runs/${encodePart(at.run)}/cancel`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }) }) as JsonCall<RunDetail>

/** Streams the events of a run, from the first or after a number. */
export const runEventsCall = (at: { thread: string; run: string; after?: number | undefined; lastEventId?: number | undefined }): RawCall =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}/runs/${encodePart(at.run)}/events${query({ after: at.after })}`, headers: headers({ 'Last-Event-ID': at.lastEventId }) }) as RawCall

/** Rates the answer of a run. */
export const putFeedbackCall = (at: { thread: string; run: string }, json: FeedbackBody): EmptyCall =>
  ({ method: 'PUT', path: `/api/threads/${encodePart(at.thread)}/runs/${encodePart(at.run)}/feedback`, json }) as EmptyCall

/** Answers the open questions of a run. */
export const resumeRunCall = (at: { thread: string; run: string; idempotencyKey?: string | undefined }, json: ResumeRunBody): JsonCall<RunDetail> =>
  ({ method: 'POST', path: `/api/threads/${encodePart(at.thread)}/runs/${encodePart(at.run)}/resume`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as JsonCall<RunDetail>

/** Continues a failed run where it stopped. */
export const retryRunCall = (at: { thread: string; run: string; idempotencyKey?: string | undefined }): JsonCall<RunDetail> =>
  ({ method: 'POST', path: `/api/threads/${encodePart(at.thread)}/runs/${encodePart(at.run)}/retry`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }) }) as JsonCall<RunDetail>

/** Returns the state after a log entry. */
export const getStateCall = (at: { thread: string; agent?: string | undefined; at?: number | undefined; explain?: string | undefined }): JsonCall<ThreadStateInfo> =>
  ({ method: 'GET', path: `/api/threads/${encodePart(at.thread)}/state${query({ agent: at.agent, at: at.at, explain: at.explain })}` }) as JsonCall<ThreadStateInfo>

/** Replaces the state of a thread. A run that waits for an answer goes on waiting, and continues with this state. What was there stays in the log. */
export const putStateCall = (at: { thread: string }, json: PutStateBody): JsonCall<ThreadStateInfo> =>
  ({ method: 'PUT', path: `/api/threads/${encodePart(at.thread)}/state`, json }) as JsonCall<ThreadStateInfo>

/** Returns the tokens and the money that runs used, for a thread or for the last days also in groups. */
export const getUsageCall = (at: { days?: number | undefined; thread?: string | undefined; utcOffset?: number | undefined } = {}): JsonCall<UsageInfo> =>
  ({ method: 'GET', path: `/api/usage${query({ days: at.days, thread: at.thread, 'utc_offset': at.utcOffset })}` }) as JsonCall<UsageInfo>
