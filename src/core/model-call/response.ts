import {
  AgentLoopError,
  type AgentLoopErrorOptions,
  type AssistantMessage,
  type ErrorCode,
  type FinishReason,
  givenJson,
  type LLMResponse,
  listCallIds,
  maxJsonDepth,
  type ToolCall,
  textOf,
} from '../contracts/index.ts';
import {
  iterationsBefore,
  type LlmDone,
  type LoopState,
  maxIterationsOf,
  type RecordedCall,
  type TurnFailed,
  type TurnRecord,
} from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { RepeatedCalls } from './repeated-calls.ts';

/** The `llm.done` of a response: every call gets a unique id; a call that repeats another one, and a truncated or filtered call, is dropped. */
export function recordOfResponse(state: LoopState, response: LLMResponse): LlmDone {
  const { message } = response;
  const given = response.toolCalls ?? (message.role === 'assistant' ? message.toolCalls : undefined) ?? [];
  const finishReason = response.finishReason ?? (given.length > 0 ? 'tool_calls' : 'stop');
  const calls = state.summary || isCutShort(finishReason) ? [] : recordedCalls(state, given);
  return {
    type: 'llm.done',
    iteration: state.iteration,
    attempt: state.attempt,
    message: assistantMessage(response, calls, state.iteration),
    calls,
    finishReason,
    ...(response.finishWord === undefined ? {} : { finishWord: response.finishWord }),
    ...(response.usage ? { usage: response.usage } : {}),
    ...(response.model === undefined ? {} : { model: response.model }),
  };
}

/** Per answer. */
const maxCalls = 10_000;

const finishReasons: ReadonlySet<unknown> = new Set<FinishReason>([
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'other',
]);

/** The error if a provider's answer is not a valid `LLMResponse`: `PROVIDER_PROTOCOL`, naming the member. */
export function responseFlaw(response: LLMResponse): AgentLoopError | undefined {
  if (typeof response?.message !== 'object' || response.message === null) {
    return misshapen('message', '{ role: "assistant", content }');
  }
  const { message, toolCalls, finishReason, finishWord, usage } = response;
  const { content, metadata } = message;
  if (content !== null && content !== undefined && typeof content !== 'string' && !Array.isArray(content)) {
    return misshapen('message.content', 'a string, parts or null');
  }
  if (Array.isArray(content) && !isJson(content)) return misshapen('message.content', json);
  if (metadata !== undefined && !isJson(metadata)) return misshapen('message.metadata', json);
  const calls = toolCalls ?? (message.role === 'assistant' ? message.toolCalls : undefined) ?? [];
  if (calls.length > maxCalls) {
    const message = `The model asked for ${calls.length} tool calls in one answer; a turn takes at most ${maxCalls}.`;
    return new AgentLoopError('PROVIDER_TOO_LARGE', message);
  }
  if (!Array.isArray(calls) || !calls.every(isCall)) {
    return misshapen('toolCalls', 'a list of { id, type: "function", function: { name, arguments } }');
  }
  if (finishReason !== undefined && finishReason !== null && !finishReasons.has(finishReason)) {
    return misshapen('finishReason', `one of ${[...finishReasons].join(', ')}`);
  }
  if (finishWord !== undefined && typeof finishWord !== 'string') return misshapen('finishWord', 'a string');
  if (usage && ![usage.promptTokens, usage.completionTokens, usage.totalTokens].every(Number.isFinite)) {
    return misshapen('usage', '{ promptTokens, completionTokens, totalTokens } in numbers');
  }
  return undefined;
}

function isCall(call: ToolCall): boolean {
  if (typeof call?.function !== 'object' || call.function === null) return false;
  const given: unknown = call.function.arguments;
  return typeof given === 'string' || given === undefined || isJson(given);
}

/** Whether it can be journaled. */
function isJson(value: unknown): boolean {
  return givenJson(value) !== undefined;
}

/** The error of a provider that completed without an answer. */
export function noResponse(): AgentLoopError {
  return new AgentLoopError(
    'PROVIDER_PROTOCOL',
    'The model provider completed its stream without a "done" chunk; emit { type: "done", response } last.',
  );
}

const json = `plain JSON of at most ${maxJsonDepth} levels`;

function misshapen(member: string, expected: string): AgentLoopError {
  const message = `The model provider gave an answer whose ${member} is not ${expected}; mend the provider.`;
  return new AgentLoopError('PROVIDER_PROTOCOL', message);
}

function isCutShort(reason: FinishReason): boolean {
  return reason === 'length' || reason === 'content_filter';
}

/** The model's message, with the calls as recorded. */
function assistantMessage(
  { message, toolCalls = [] }: LLMResponse,
  calls: readonly RecordedCall[],
  iteration: number,
): AssistantMessage {
  const reasoning = message.role === 'assistant' ? message.reasoning : undefined;
  const { id, createdAt } = message;
  const isWhole = calls.length === toolCalls.length;
  const metadata = isWhole ? message.metadata : listCallIds(message.metadata, calls.map(idOf), iteration);
  return {
    role: 'assistant',
    content: message.content ?? null,
    ...(calls.length > 0 ? { toolCalls: calls.map(({ call }) => call) } : {}),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(id === undefined ? {} : { id }),
    ...(createdAt === undefined ? {} : { createdAt }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

function idOf({ callId }: RecordedCall): string {
  return callId;
}

const noCalls: readonly RecordedCall[] = [];

function recordedCalls({ iteration, history }: LoopState, given: readonly ToolCall[]): readonly RecordedCall[] {
  if (given.length === 0) return noCalls;
  const seen = given.length > 1 ? new Set<string>() : undefined;
  let earlier: RepeatedCalls | undefined;
  const isTaken = (id: string) => seen?.has(id) || history.hasCall(id);
  const recorded: RecordedCall[] = [];
  for (const [index, call] of given.entries()) {
    const usable = typeof call.id === 'string' && call.id !== '' && !isTaken(call.id);
    // Only a call whose id is taken can repeat an earlier one.
    if (!usable) earlier ??= new RepeatedCalls(given.slice(0, index));
    if (earlier?.repeats(call)) continue;
    const callId = `${iteration}:${index}`;
    let id = usable ? call.id : callId;
    if (!usable) for (let at = history.length; isTaken(id); at++) id = `${callId}.${at}`;
    seen?.add(id);
    const { name, arguments: text } = call.function;
    recorded.push({
      callId,
      call: { id, type: 'function', function: { name: name ?? '', arguments: argumentsText(text) } },
    });
  }
  return recorded;
}

/** Some providers return parsed arguments, or none, against the type. */
function argumentsText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** The text of the turn if the closing summary fails. */
export const summaryFallback = 'The limit of steps was reached before an answer was found.';

/** The warning about that. */
export function failedSummary(why: string): string {
  return `The closing summary failed, so the turn ends with a fixed sentence: ${why}`;
}

/** The error message of a truncated answer. */
export const cutShort = 'The model stopped at its token limit; raise maxTokens, or ask for less.';

/** The end of a turn whose response requests no tool: completed, or failed by the model's finish reason. */
export function endWithResponse(limits: Limits, state: LoopState, record: LlmDone): TurnRecord {
  const text = textOf(record.message.content);
  if (state.summary) return { type: 'turn.done', text: text || summaryFallback, reason: limitReason(limits, state) };
  switch (record.finishReason) {
    case 'length':
      return limits.onLength === 'complete'
        ? { type: 'turn.done', text, reason: 'length' }
        : failed('LENGTH', cutShort);
    case 'content_filter':
      return failed(
        'CONTENT_FILTER',
        'The content filter of the model’s vendor stopped the answer; rephrase the prompt.',
      );
    case 'tool_calls':
      if (text !== '') break;
      return failed('EMPTY_RESPONSE', 'The model announced tool calls and gave neither a call nor text; try again.');
    case 'other':
      if (text !== '') return { type: 'turn.done', text, reason: 'other' };
      return failed('EMPTY_RESPONSE', emptyEnd(record.finishWord));
    case 'stop':
      break;
  }
  return { type: 'turn.done', text, reason: 'stop' };
}

function emptyEnd(finishWord = 'other'): string {
  return `The model stopped with the reason ${JSON.stringify(finishWord)} and gave neither a call nor text; try again.`;
}

/** The limits that decide how a turn ends. */
type Limits = Pick<ResolvedConfig, 'maxIterations' | 'onLength'>;

/** The number of iterations that the turn may have, without those of earlier agents. */
export function allowedIterations(limits: Pick<Limits, 'maxIterations'>, state: LoopState): number {
  return maxIterationsOf(limits, state) - iterationsBefore(state);
}

/** The reason of a turn whose last iteration requested tools: `unfinished` if only one iteration was allowed. */
export function limitReason(limits: Pick<Limits, 'maxIterations'>, state: LoopState): string {
  return allowedIterations(limits, state) === 1 ? 'unfinished' : 'max_iterations';
}

/** The record of a failed turn; its reason is the code in lower case unless it is given. */
export function failed(
  code: ErrorCode,
  message: string,
  { reason = code.toLowerCase(), details }: Partial<Pick<AgentLoopErrorOptions, 'reason' | 'details'>> = {},
): TurnFailed {
  return { type: 'turn.failed', code, message, reason, ...(details && { details }) };
}
