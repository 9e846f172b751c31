import type { FinishReason } from '../core/contracts/index.ts';

/**
 * What a finish word means. `failed`: the answer broke off at the server, which may pass; `unusable`: the model wrote something malformed;
 * `overflow`: the context window is full; `other`: known, but it does not say why the model stopped.
 */
export type FinishMeaning = FinishReason | 'failed' | 'unusable' | 'overflow';

/** The words of the vendors, in lower case without separators. Where one word means different things, the row that comes first counts. */
const words: Readonly<Record<FinishMeaning, string>> = {
  // Gemini, Bedrock, Groq.
  unusable: `malformedfunctioncall unexpectedtoolcall toomanytoolcalls malformedresponse malformedtooluse malformedtoolcall
    malformedmodeloutput invalidtoolcall toolusefailed missingthoughtsignature noimage imageother`,
  // OpenRouter, vLLM, DeepSeek, Z.ai, Cohere, the Responses API.
  failed: `error errorfinish abort aborted insufficientsystemresource networkerror usercancel cancel cancelled canceled failed failure
    timeout interrupted`,
  // Anthropic, Z.ai, Cohere.
  overflow: 'modelcontextwindowexceeded contextwindowexceeded contextlengthexceeded errorlimit',
  // OpenAI, Azure, Anthropic, Gemini, Bedrock, Z.ai, Cohere.
  content_filter: `contentfilter contentfiltered refusal refused safety recitation sensitive prohibitedcontent blocklist spii language
    imagesafety imageprohibitedcontent imagerecitation guardrailintervened errortoxic modelarmor blocked`,
  // OpenAI, Anthropic, Gemini, Mistral, Text Generation Inference, the Responses API.
  length: `length maxtokens maxoutputtokens maxcompletiontokens maxnewtokens maxlength modellength tokenlimit maxtokensreached incomplete
    truncated`,
  tool_calls: 'toolcalls toolcall tooluse toolcalling functioncall functioncalls',
  // OpenAI, Anthropic, Gemini, Cohere, AI21, Text Generation Inference, vLLM, the Responses API.
  stop: `stop endturn stopsequence eos eostoken endoftext end stoptoken stopword complete completed done finished finish normal
    endofsequence`,
  other: 'other unknown unspecified finishreasonunspecified',
};

/** The worst first: of several parts of a word, the worst counts. */
const fromWorst = [
  ...(['unusable', 'failed', 'overflow', 'content_filter'] as const),
  ...(['length', 'tool_calls', 'stop', 'other'] as const),
];

const meanings: ReadonlyMap<string, FinishMeaning> = new Map(
  fromWorst.flatMap((meaning) => words[meaning].split(/\s+/).map((word) => [word, meaning] as const)),
);

/** What a word that is not in the table says about how the answer ended; the first row that fits counts. */
const signs: readonly (readonly [RegExp, FinishMeaning])[] = [
  [
    /malform|(unexpected|invalid|bad|broken|failed|unparsable)\W?(tool|function|call|json)|(tool|function|call)\W?(error|fail|invalid|pars)/i,
    'unusable',
  ],
  [
    /error|fail|abort|crash|exception|time.?out|timed|cancel|interrupt|unavail|overload|rate.?limit|invalid|kill|disconnect|unexpected/i,
    'failed',
  ],
  [/context.?(window|length|size|limit|full|overflow)/i, 'overflow'],
  [
    /filter|safety|block|prohibit|moderat|refus|guardrail|censor|sensitiv|policy|violat|harm|toxic|unsafe|denied|flagged|copyright/i,
    'content_filter',
  ],
  [/length|max|limit|truncat|cut|budget|exceed|exhaust|partial|incomplete/i, 'length'],
  [/tool|function/i, 'tool_calls'],
];

/**
 * What a finish word means, whatever its case and its separators, also in parts (`function_call_filter: MALFORMED_FUNCTION_CALL`), of which
 * the worst counts. `undefined` for a word that is not known and says nothing of failures, filters and limits.
 */
export function finishMeaning(word: string): FinishMeaning | undefined {
  const whole = meanings.get(word.replace('_', '').toLowerCase());
  if (whole !== undefined) return whole;
  const parts = word
    .split(/[:\s/|,;]+/)
    .map((part) => part.replace(/^finish_?reason[._]?(?=\w)/i, ''))
    .filter((part) => part !== '');
  const known = parts.map((part) => meanings.get(part.toLowerCase().replace(/[^a-z0-9]/g, '')));
  const found = known.map((meaning, at) => meaning ?? signs.find(([sign]) => sign.test(parts[at] ?? ''))?.[1]);
  return fromWorst.find((meaning) => found.includes(meaning));
}

/** What came of an answer. */
export interface AnswerContent {
  readonly hasCalls: boolean;
  /** Text, or another part that the user gets. */
  readonly hasText: boolean;
}

/** How an answer ended: the reason of a complete one, or why it is none. */
export type AnswerEnd =
  | { readonly reason: FinishReason }
  | { readonly flaw: 'failed' | 'unusable' | 'overflow' | 'announced' };

/**
 * How an answer ended with this finish word. Whole calls count more than a word that is not known, and text is a good answer unless the
 * word says otherwise; neither of them makes a good answer of a failure. `announced`: the word says that there are calls, and none came.
 */
export function answerEnd(word: string | undefined, { hasCalls, hasText }: AnswerContent): AnswerEnd {
  if (word === undefined) return { reason: hasCalls ? 'tool_calls' : 'stop' };
  const meaning = finishMeaning(word);
  switch (meaning) {
    case 'failed':
    case 'unusable':
      return { flaw: meaning };
    case 'overflow':
      return hasCalls || hasText ? { reason: 'length' } : { flaw: 'overflow' };
    case 'tool_calls':
      return hasCalls ? { reason: 'tool_calls' } : { flaw: 'announced' };
    case 'stop':
    case 'length':
    case 'content_filter':
      return { reason: meaning };
    default:
      if (hasCalls) return { reason: 'tool_calls' };
      return hasText ? { reason: 'other' } : { flaw: 'unusable' };
  }
}
