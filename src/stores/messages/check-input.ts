import {
  AgentLoopError,
  type ContextQuery,
  checkMessages,
  type LoadOptions,
  type Message,
  type MetadataOptions,
  shownValue,
  type TurnAppendOptions,
  taskIdPattern,
} from '../../core/contracts/index.ts';
import { encodeJson } from '../check-metadata.ts';
import { assertTaskId } from '../store-rules.ts';
import { entryOf, withStamps } from './stored-messages.ts';

/** How large the messages of one turn may be, in characters of their JSON. */
const maxTurnLength = 32 * 1024 * 1024;

const maxAgentIdLength = 256;

/** Refuses a context id that no store may take: `INVALID_INPUT`. */
export function assertContextId(contextId: string): void {
  if (typeof contextId === 'string' && taskIdPattern.test(contextId)) return;
  throw invalid(
    `The context id ${shownValue(contextId)} cannot be used; take 1 to 128 of the characters A-Z a-z 0-9 _ . : -`,
  );
}

export function assertTurn(contextId: string, taskId: string): void {
  assertContextId(contextId);
  assertTaskId(taskId);
}

/** Refuses what is not the id of an agent; `needed`: also where it is left out. Errors: `INVALID_INPUT`. */
export function assertAgentId(agentId: string | undefined, needed?: 'needed'): void {
  if (agentId === undefined && !needed) return;
  if (typeof agentId === 'string' && agentId !== '' && agentId.length <= maxAgentIdLength) return;
  throw invalid(`agentId must be a string of 1 to ${maxAgentIdLength} characters, got ${shownValue(agentId)}.`);
}

/** What `append` of a message store was called with, and the time, in milliseconds since 1970. */
interface AppendedTurn extends TurnAppendOptions {
  readonly contextId: string;
  readonly taskId: string;
  readonly messages: readonly Message[];
  readonly now: number;
}

/** Checks the arguments of `append`. Returns the messages as JSON, one string each, with their stamps. Errors: `INVALID_INPUT`, also for what is no message, changes in JSON, or is too large. */
export function encodeTurn({ contextId, agentId, messages, ...stamping }: AppendedTurn): readonly string[] {
  const { taskId } = stamping;
  assertTurn(contextId, taskId);
  assertAgentId(agentId);
  checkMessages(messages);
  const texts = withStamps(messages, stamping).map(({ message, stamp }, index) =>
    entryOf(encodeJson(message, `messages[${index}]`), stamp),
  );
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= maxTurnLength) return texts;
  throw invalid(
    `The messages of task ${JSON.stringify(taskId)} are ${length} characters of JSON, more than ${maxTurnLength}; keep large content in an ArtifactStore and refer to it.`,
  );
}

export function assertLoadOptions({ limit, before }: LoadOptions): void {
  assertCount('limit', limit);
  assertCount('before', before);
}

/** Errors: `INVALID_INPUT`. */
export function assertVersion({ version }: MetadataOptions): void {
  assertCount('version', version);
}

/** The query with its defaults. Errors: `INVALID_INPUT`. */
export function contextQueryOf({ limit = 50, after = '' }: ContextQuery): Required<ContextQuery> {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw invalid(`limit is ${shownValue(limit)}; give a whole number of at least 1.`);
  }
  if (after !== '') assertContextId(after);
  return { limit, after };
}

export function versionConflict(contextId: string, expected: number, found: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The metadata of context "${contextId}" has version ${found}, not ${expected}: somebody changed it; load it and try again.`,
  );
}

function assertCount(name: string, value: number | undefined): void {
  if (value === undefined || value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && value >= 0)) return;
  throw invalid(`${name} is ${shownValue(value)}; give a whole number from 0, or leave it out.`);
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}
