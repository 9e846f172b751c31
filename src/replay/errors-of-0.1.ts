import type { ToolError } from '../core/contracts/index.ts';

interface Sentence {
  readonly reason: string;
  readonly words: RegExp;
}

/** What version 0.1 wrote in place of a reason and its details; these sentences are in journals, and change no more. */
const sentences: Readonly<Partial<Record<ToolError['code'], readonly Sentence[]>>> = {
  TOOL_TIMEOUT: [
    { reason: 'undecided', words: /^nobody decided within (?<limitMs>\d+) ms whether the call may run$/ },
    { reason: 'check_late', words: /^the check of the arguments did not answer within (?<limitMs>\d+) ms$/ },
    { reason: 'tool_late', words: /^the tool did not answer within (?<limitMs>\d+) ms$/ },
  ],
  TOOL_REJECTED: [
    { reason: 'rejected', words: /^the call was rejected(: (?<says>.*))?$/s },
    { reason: 'denied', words: /^(?<says>.*)$/s },
  ],
  TOOL_ABANDONED: [{ reason: 'abandoned', words: /^the tool did not stop within (?<limitMs>\d+) ms of the cancel$/ }],
  TOOL_SKIPPED: [{ reason: 'skipped', words: /^skipped: the turn finished$/ }],
  CANCELED: [{ reason: 'never_started', words: /^the turn was stopped before this call started$/ }],
  OUTCOME_UNKNOWN: [
    { reason: 'in_doubt_no_answer', words: /; asking the tool gave no usable answer; check before/ },
    { reason: 'in_doubt_failed', words: /; asking the tool failed: (?<why>.*); check before/s },
    { reason: 'in_doubt', words: /^OUTCOME_UNKNOWN: the process stopped while this call ran/ },
  ],
  TOOL_TOO_LARGE: [
    { reason: 'too_large', words: /^the result has (?<bytes>\d+) bytes, more than the (?<maxBytes>\d+) that/ },
  ],
  TOOL_NOT_FOUND: [
    {
      reason: 'unknown_tool',
      words:
        /^(tool "(?<name>[^"]*)" is not known|the call names no tool); (known tools: (?<known>.*)|there are no tools)$/,
    },
  ],
  TOOL_ARGUMENTS: [
    { reason: 'not_json', words: /^the arguments of "(?<name>[^"]*)" are not JSON \(/ },
    { reason: 'invalid_arguments', words: /^/ },
  ],
};

/** The error of a call with its reason as data, where it is of a version that wrote only words. */
export function withReason(error: ToolError): ToolError {
  if (error.reason !== undefined) return error;
  for (const { reason, words } of sentences[error.code] ?? []) {
    const found = words.exec(error.message);
    if (found) return { ...error, reason, ...detailsOf(reason, found.groups) };
  }
  return error;
}

const counts = new Set(['limitMs', 'bytes', 'maxBytes']);

function detailsOf(
  reason: string,
  groups: Readonly<Record<string, string | undefined>> = {},
): Pick<ToolError, 'details'> {
  if (reason === 'unknown_tool') {
    const { name = '', known } = groups;
    return { details: { name, known: known?.split(', ') ?? [] } };
  }
  const named = Object.entries(groups).filter(([, text]) => text !== undefined);
  if (named.length === 0) return reason === 'rejected' ? { details: {} } : {};
  return { details: Object.fromEntries(named.map(([name, text]) => [name, counts.has(name) ? Number(text) : text])) };
}
