import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Agent } from '../../agent/agent.ts';
import { type AgentEvent, AgentLoopError, isSuspended, partsText } from '../../core/contracts/index.ts';
import type { TurnResult } from '../../core/journal/index.ts';
import type { Turn } from '../../core/turn/index.ts';
import { contextFromCarrier } from '../../observability/trace-carrier.ts';
import type { ServerSdk } from '../load-sdk.ts';
import { askClient, type CallingClient } from './ask-client.ts';

/** An agent, how it is served, and how many of its turns run. */
export interface ServedAgent {
  readonly agent: Agent;
  readonly toolName: string;
  /** Whether turns that nobody answered stay. */
  readonly keepUnanswered: boolean;
  readonly answerTimeoutMs: number;
  readonly maxTurns: number;
  turns: number;
}

export interface TurnOfCall {
  readonly sdk: ServerSdk;
  readonly served: ServedAgent;
  readonly message: string;
  readonly contextId: string;
  /** Whether the tool has declared a schema of the value. */
  readonly hasOutput: boolean;
  readonly client: CallingClient;
}

/** Runs a turn for a call: tells its progress, has its questions answered, and gives what it comes to. Never rejects. */
export async function runTurn(call: TurnOfCall): Promise<CallToolResult> {
  const { served, message, contextId, client } = call;
  const { agent } = served;
  const shared = { parentContext: contextFromCarrier(client.meta), signal: client.signal };
  const progress = new TurnProgress(client);
  try {
    let turn = agent.startTurn(message, { ...shared, contextId });
    for (;;) {
      const result = await ending(turn, progress);
      if (!isSuspended(result.status)) return answerOf(result, call.hasOutput);
      const answers = await askClient(result.questions, call);
      if (answers === undefined) return await unanswered(result, call);
      turn = agent.resume(turn.taskId, { ...shared, contextId, answers });
    }
  } catch (thrown) {
    return failure(thrown);
  } finally {
    progress.close();
  }
}

async function ending(turn: Turn, progress: TurnProgress): Promise<TurnResult> {
  const reading = turn.subscribe({ next: (event) => progress.show(event), error: () => {} });
  try {
    return await turn.result();
  } finally {
    reading.unsubscribe();
  }
}

function answerOf({ text, value, taskId }: TurnResult, hasOutput: boolean): CallToolResult {
  const _meta = { 'millrace/task-id': taskId };
  if (value === undefined) return { content: [{ type: 'text', text }], _meta };
  const json = JSON.stringify(value);
  const content = [{ type: 'text' as const, text: json }];
  const structured: unknown = JSON.parse(json);
  return hasOutput && isRecord(structured) ? { content, structuredContent: structured, _meta } : { content, _meta };
}

/** Cancels a turn that no other process can resume, and one whose client has cancelled or disconnected. */
async function unanswered({ taskId, questions }: TurnResult, { served, client }: TurnOfCall): Promise<CallToolResult> {
  const what = [...new Set(questions.map(({ kind, toolName }) => `${kind} of ${toolName}`))].join(', ') || 'somebody';
  const { aborted } = client.signal;
  if (aborted || !served.keepUnanswered) {
    await served.agent.cancel(taskId, aborted ? 'the client left' : 'nobody answered').catch(() => {});
    return failedCall(`The agent needs an answer that it did not get (${what}).`, taskId);
  }
  return failedCall(
    `The agent waits for an answer that this client did not give (${what}); its task is ${taskId}.`,
    taskId,
  );
}

/** The code alone: what an error says may be nobody's business. */
function failure(thrown: unknown): CallToolResult {
  const code = AgentLoopError.isInstance(thrown) ? thrown.code : 'INTERNAL';
  const taskId = AgentLoopError.isInstance(thrown) ? thrown.taskId : undefined;
  if (code === 'AGENT_BUSY')
    return failedCall('Another call of this conversation still runs; wait for it, or use another one.', taskId);
  return failedCall(`The agent could not finish (${code}).`, taskId);
}

/** A call that failed, in words for the client's model. */
export function failedCall(text: string, taskId?: string): CallToolResult {
  const _meta = taskId === undefined ? {} : { _meta: { 'millrace/task-id': taskId } };
  return { isError: true, content: [{ type: 'text', text }], ..._meta };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A client may give up on a call that says nothing for a minute. */
const heartbeatMs = 15_000;
/** Between two notifications of text that streams. */
const textMs = 500;
const maxLength = 120;

/** Tells a client what a turn does, where it asked for that: tools as they start and end, the text as it grows, and that there is life. */
class TurnProgress {
  readonly #client: CallingClient;
  readonly #heartbeat: NodeJS.Timeout | undefined;
  #count = 0;
  #text = '';
  #textAt = 0;

  constructor(client: CallingClient) {
    this.#client = client;
    if (client.meta.progressToken !== undefined)
      this.#heartbeat = setInterval(() => this.#send('still at work'), heartbeatMs);
  }

  show(event: AgentEvent): void {
    if (this.#heartbeat === undefined) return;
    if (event.kind === 'artifact-update') return this.#grow(event);
    const message = messageOf(event);
    if (message !== undefined) this.#send(message);
  }

  close(): void {
    clearInterval(this.#heartbeat);
  }

  #grow({ append, artifact }: Extract<AgentEvent, { kind: 'artifact-update' }>): void {
    const text = partsText(artifact.parts);
    this.#text = (append ? this.#text + text : text).slice(-maxLength);
    const now = performance.now();
    if (this.#text.trim() === '' || now - this.#textAt < textMs) return;
    this.#textAt = now;
    this.#send(this.#text);
  }

  /** A client that is gone needs to know nothing. */
  #send(message: string): void {
    this.#heartbeat?.refresh();
    const { progressToken } = this.#client.meta;
    if (progressToken === undefined) return;
    const params = { progressToken, progress: ++this.#count, message };
    this.#client.notify({ method: 'notifications/progress', params }).catch(() => {});
  }
}

/** Names of tools, never what they are given, or give. */
function messageOf(event: AgentEvent): string | undefined {
  switch (event.kind) {
    case 'internal:tool-start':
      return `${event.toolName} runs`;
    case 'internal:tool-complete':
      return event.success ? `${event.toolName} is done` : `${event.toolName} failed`;
    case 'internal:iteration-start':
      return event.iteration === 1 ? 'begins' : `step ${event.iteration}`;
    default:
      event.kind satisfies
        | 'task'
        | 'status-update'
        | 'artifact-update'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-response'
        | 'internal:llm-attempt-discarded'
        | 'internal:reasoning-delta'
        | 'internal:tool-call-delta'
        | 'internal:tool-progress'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:resumed'
        | 'internal:sub-agent'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return undefined;
  }
}
