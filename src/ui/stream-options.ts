import { AgentLoopError, type ErrorCode, invalidConfig, shownValue } from '../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';

/** What of a turn leaves the server, and how. */
export interface StreamOptions {
  /**
   * What is shown of tool calls. `'names'` (default): that a tool runs and how it ended; no results, no progress, and arguments only of a call that waits for an approval. `'full'`: these
   * too, and the text of sub-agents. `'hidden'`: nothing, except for calls that wait for an approval, without their names.
   */
  readonly tools?: 'full' | 'names' | 'hidden' | undefined;
  /** Whether the reasoning of the model is shown. Default false. */
  readonly reasoning?: boolean | undefined;
  /** The sentence for an error, of the turn or of a tool. Default: a fixed sentence for each code; messages of errors are never shown. */
  readonly errorText?: ((error: { readonly code: ErrorCode }) => string) | undefined;
  /** How long a stream is silent before a comment line is sent, so that proxies keep it open. Milliseconds; default 15,000; 0: never. */
  readonly heartbeatMs?: number | undefined;
  /** The cursor of the last event that the reader has; only events after it are shown. Default: from the start. */
  readonly from?: string | undefined;
  /** Ids of questions that the reader has answered: they are not asked again while the turn takes the answers. Default: none. */
  readonly answered?: readonly string[] | undefined;
}

const streamNames: OptionNames<StreamOptions> = {
  tools: true,
  reasoning: true,
  errorText: true,
  heartbeatMs: true,
  from: true,
  answered: true,
};

/** `own`: the options that only this kind of stream has. Errors: `INVALID_CONFIG` for an unknown option of `owner`, naming the known ones. */
export function assertStreamOptions<Options extends StreamOptions>(
  owner: string,
  options: Options,
  own: OptionNames<Omit<Options, keyof StreamOptions>>,
): void {
  assertKnownOptions<object>(owner, options, { ...streamNames, ...own });
}

/** The options of a reader, complete. */
export interface Shown {
  readonly tools: 'full' | 'names' | 'hidden';
  readonly reasoning: boolean;
  readonly errorText: (error: { readonly code: ErrorCode }) => string;
  readonly from: string | undefined;
  readonly answered: ReadonlySet<string>;
}

/** Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function shownOf(options: StreamOptions): Shown {
  const { tools = 'names', reasoning = false, errorText = sentenceOf, heartbeatMs = 0, from, answered = [] } = options;
  if (!['full', 'names', 'hidden'].includes(tools))
    throw invalidConfig(`tools is ${shownValue(tools)}`, 'it must be "full", "names" or "hidden"');
  if (typeof errorText !== 'function')
    throw invalidConfig(`errorText is ${shownValue(errorText)}`, 'it must be a function ({ code }) => string');
  if (!(typeof heartbeatMs === 'number' && heartbeatMs >= 0))
    throw invalidConfig(`heartbeatMs is ${shownValue(heartbeatMs)}`, 'it must be a number of milliseconds ≥ 0');
  return { tools, reasoning, errorText, from, answered: new Set(answered) };
}

export function codeOf(error: unknown): ErrorCode {
  return AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
}

/** Whether a stream that ends with this code was of no turn: the request named none, or asked something else of it. */
export function isRefusalCode(code: ErrorCode): boolean {
  return code === 'NOT_FOUND' || code === 'CONFLICT' || code === 'INVALID_INPUT';
}

/** Whether a turn that this process lost with this code can be followed again. */
export function isRetryableCode(code: ErrorCode): boolean {
  return !isRefusalCode(code) && code !== 'INTERNAL';
}

const busy = 'The service is busy. Try again in a moment.';
const away = 'The model cannot be reached. Try again in a moment.';
const broken = 'The model gave no usable answer. Try again.';
const interrupted = 'The connection to the turn was lost. It can be followed again.';
const refused = 'This request was refused.';

const sentences: Partial<Record<ErrorCode, string>> = {
  INVALID_INPUT: 'The request is not valid.',
  CANCELED: 'The turn was stopped.',
  MAX_ITERATIONS: 'The answer took too many steps.',
  LENGTH: 'The answer became too long.',
  CONTENT_FILTER: 'The answer was blocked by a content filter.',
  EMPTY_RESPONSE: broken,
  LIMIT: 'A limit of this turn was reached.',
  PARSE_ERROR: broken,
  GUARDRAIL: refused,
  REJECTED: refused,
  TOOL_NOT_FOUND: 'The tool is not known.',
  TOOL_ARGUMENTS: 'The tool was called with wrong arguments.',
  TOOL_FAILED: 'The tool failed.',
  TOOL_TIMEOUT: 'The tool took too long.',
  TOOL_ABANDONED: 'The tool did not stop in time.',
  TOOL_REJECTED: 'The call was rejected.',
  TOOL_TOO_LARGE: 'The result of the tool is too large.',
  TOOL_SKIPPED: 'The call was skipped.',
  OUTCOME_UNKNOWN: 'It is not known whether the tool ran.',
  PROVIDER_UNREACHABLE: away,
  CONTEXT_OVERFLOW: 'The conversation became too long for the model.',
  PROVIDER_RATE_LIMIT: busy,
  PROVIDER_SERVER: away,
  PROVIDER_PROTOCOL: broken,
  PROVIDER_STREAM_CLOSED: away,
  PROVIDER_TIMEOUT: away,
  PROVIDER_TOO_LARGE: broken,
  UNAVAILABLE: interrupted,
  FENCED: interrupted,
  REWOUND: interrupted,
  SHUTDOWN: interrupted,
  BUSY: interrupted,
  LEFT: interrupted,
  TERMINAL: 'This was answered or changed before.',
  CONFLICT: 'This id already has another message or answer. Send a new message with a new id.',
  NOT_FOUND: 'There is no such chat or turn.',
  FULL: 'There is no room for more. Have old conversations deleted.',
  AGENT_BUSY: 'Another message of this chat is still being answered.',
};

/** The sentence for a code: the default of `errorText`. */
export function sentenceOf({ code }: { readonly code: ErrorCode }): string {
  return sentences[code] ?? 'Something went wrong.';
}
