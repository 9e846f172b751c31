import {
  type Artifact,
  type Metadata,
  type Part,
  type Status,
  type StreamResponse,
  type ToolEvent,
  toolEventsExtension,
  turnExtension,
} from './wire.ts';

export type ToolState = 'running' | 'waiting' | 'done' | 'failed' | 'stopped' | 'rejected' | 'unknown';

export type Piece =
  | { readonly type: 'text'; readonly artifactId: string; readonly text: string }
  | { readonly type: 'artifact'; readonly artifactId: string; readonly name: string; readonly text: string }
  | {
      readonly type: 'tool';
      /** Of a sub-agent's call, after those of the calls above it: `1:0/2:1`. */
      readonly callId: string;
      readonly name: string;
      /** The sub-agents on the way to the call, outermost first; absent for a call of the agent itself. */
      readonly agents?: readonly string[];
      readonly state: ToolState;
      readonly durationMs?: number | undefined;
    };

type ToolPiece = Extract<Piece, { type: 'tool' }>;

/** What the agent asks; see docs/questions.md. */
export interface Question {
  readonly id: string;
  readonly callId: string;
  readonly kind: 'approval' | 'input' | 'client-tool' | 'auth' | 'in-doubt';
  readonly toolName: string;
  readonly prompt?: string;
  readonly data?: unknown;
}

/** Something said and what came of it: one task of A2A. Plain, so that it can be stored. */
export interface Exchange {
  readonly said: string;
  /** Unknown until the server has answered. */
  readonly taskId?: string;
  /** The last update that was seen. */
  readonly cursor?: string;
  readonly state: string;
  readonly pieces: readonly Piece[];
  readonly questions: readonly Question[];
  /** Why it failed, in words. */
  readonly failure?: string;
}

export function newExchange(said: string): Exchange {
  return { said, state: 'submitted', pieces: [], questions: [] };
}

export function isOver({ state }: Exchange): boolean {
  return ['completed', 'failed', 'canceled', 'rejected'].includes(state);
}

/** Whether the agent does nothing more by itself. */
export function isAtRest(exchange: Exchange): boolean {
  return isOver(exchange) || (exchange.questions.length > 0 && exchange.state.endsWith('-required'));
}

/** The exchange after an update. */
export function updated(exchange: Exchange, response: StreamResponse): Exchange {
  if ('task' in response) {
    const { id, status, artifacts = [], metadata } = response.task;
    const seen = artifacts.reduce(withArtifact, { ...exchange, taskId: id });
    return withStatus(withCursor(seen, metadata), status, metadata);
  }
  if ('artifactUpdate' in response) {
    const { artifact, append = false, metadata } = response.artifactUpdate;
    return withCursor(append ? appended(exchange, artifact) : withArtifact(exchange, artifact), metadata);
  }
  const { status, metadata } = response.statusUpdate;
  const behind = withCursor(exchange, metadata);
  const toolEvent = metadata?.[toolEventsExtension];
  return toolEvent ? withTool(behind, toolEvent) : withStatus(behind, status, metadata);
}

/** Without a question that has been answered. */
export function answered(exchange: Exchange, id: string): Exchange {
  return { ...exchange, questions: exchange.questions.filter((question) => question.id !== id) };
}

export function failed(exchange: Exchange, failure: string): Exchange {
  return { ...stopped(exchange, 'failed'), state: 'failed', questions: [], failure };
}

function withCursor(exchange: Exchange, metadata: Metadata | undefined): Exchange {
  const cursor = metadata?.[turnExtension]?.cursor;
  return cursor === undefined ? exchange : { ...exchange, cursor };
}

function withStatus(exchange: Exchange, status: Status, metadata: Metadata | undefined): Exchange {
  const state = status.state.replace('TASK_STATE_', '').toLowerCase().replaceAll('_', '-');
  const parts = status.message?.parts ?? [];
  const questions = state.endsWith('-required') ? parts.flatMap(questionIn) : [];
  const next: Exchange = { ...exchange, state, questions };
  if (!isOver(next)) return waiting(next);
  if (state === 'completed') return stopped(next, 'done');
  if (state === 'canceled') return stopped(next, 'stopped');
  const code = metadata?.[turnExtension]?.code;
  const otherwise = state === 'rejected' ? 'The agent refused.' : 'The agent failed.';
  return failed(next, `${textOf(parts) || otherwise}${code === undefined ? '' : ` (${code})`}`);
}

/** Calls that ask continue with the answer. */
function waiting(exchange: Exchange): Exchange {
  const asks = (callId: string) => exchange.questions.some((question) => question.callId === callId);
  const pieces = exchange.pieces.map((piece) =>
    piece.type === 'tool' && asks(piece.callId) ? { ...piece, state: 'waiting' as const } : piece,
  );
  return { ...exchange, pieces };
}

/** Calls whose end nobody told. */
function stopped(exchange: Exchange, state: 'done' | 'failed' | 'stopped'): Exchange {
  const pieces = exchange.pieces.map((piece) =>
    piece.type === 'tool' && (piece.state === 'running' || piece.state === 'waiting') ? { ...piece, state } : piece,
  );
  return { ...exchange, pieces };
}

function withTool(exchange: Exchange, event: ToolEvent): Exchange {
  const { toolName, durationMs, path = [] } = event;
  const above = path.map((step) => step.callId);
  const callId = [...above, event.callId].join('/');
  const agents = path.length > 0 && { agents: path.map(({ agentId }) => agentId) };
  const call: ToolPiece = { type: 'tool', callId, name: toolName, ...agents, state: toolState(event), durationMs };
  return { ...exchange, pieces: putCall(exchange.pieces, call, above.join('/')) };
}

function toolState({ phase, success, code = '' }: ToolEvent): ToolState {
  if (phase === 'start') return 'running';
  return success ? 'done' : (endings[code] ?? 'failed');
}

/** A call without success need not have failed. */
const endings: Readonly<Record<string, ToolState>> = {
  CANCELED: 'stopped',
  TOOL_ABANDONED: 'stopped',
  TOOL_SKIPPED: 'stopped',
  TOOL_REJECTED: 'rejected',
  OUTCOME_UNKNOWN: 'unknown',
};

function withArtifact(exchange: Exchange, artifact: Artifact): Exchange {
  const piece = pieceOf(artifact);
  if (piece.text === '' && !exchange.pieces.some(isOf(artifact))) return exchange;
  return { ...exchange, pieces: put(exchange.pieces, piece, isOf(artifact)) };
}

function appended(exchange: Exchange, artifact: Artifact): Exchange {
  const text = textOf(artifact.parts ?? []);
  if (!exchange.pieces.some(isOf(artifact))) return withArtifact(exchange, artifact);
  const pieces = exchange.pieces.map((piece) =>
    isOf(artifact)(piece) && piece.type !== 'tool' ? { ...piece, text: piece.text + text } : piece,
  );
  return { ...exchange, pieces };
}

function pieceOf({ artifactId, name, parts = [] }: Artifact): Exclude<Piece, { type: 'tool' }> {
  const text = textOf(parts);
  return /^answer-\d+$/.test(artifactId)
    ? { type: 'text', artifactId, text }
    : { type: 'artifact', artifactId, name: name || artifactId, text };
}

function isOf({ artifactId }: Artifact): (piece: Piece) => boolean {
  return (piece) => piece.type !== 'tool' && piece.artifactId === artifactId;
}

/** A call of a sub-agent stands below the call that the sub-agent works for, after the other calls there. */
function putCall(pieces: readonly Piece[], call: ToolPiece, above: string): readonly Piece[] {
  const isCall = (piece: Piece) => piece.type === 'tool' && piece.callId === call.callId;
  const isBelow = (piece: Piece) =>
    piece.type === 'tool' && (piece.callId === above || piece.callId.startsWith(`${above}/`));
  const at = above === '' ? -1 : pieces.findLastIndex(isBelow);
  return at < 0 || pieces.some(isCall) ? put(pieces, call, isCall) : pieces.toSpliced(at + 1, 0, call);
}

function put(pieces: readonly Piece[], piece: Piece, isSame: (piece: Piece) => boolean): readonly Piece[] {
  return pieces.some(isSame) ? pieces.map((each) => (isSame(each) ? piece : each)) : [...pieces, piece];
}

function textOf(parts: readonly Part[]): string {
  return parts
    .map(({ text, data, url, filename }) => text ?? url ?? (data === undefined ? (filename ?? '') : pretty(data)))
    .join('');
}

export function pretty(data: unknown): string {
  return JSON.stringify(data, null, 2);
}

function questionIn({ data }: Part): readonly Question[] {
  const question: unknown = isObject(data) ? data['question'] : undefined;
  return isQuestion(question) ? [question] : [];
}

function isQuestion(value: unknown): value is Question {
  return isObject(value) && typeof value['id'] === 'string' && typeof value['kind'] === 'string';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
