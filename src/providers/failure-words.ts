import type { ErrorCode } from '../core/contracts/index.ts';

/**
 * What a failure is about. `overflow`: the prompt is longer than the model's context window; `exhausted`: the account has no money or quota;
 * `unusable`: the model wrote something that the server itself refuses, such as a malformed call; the others as the codes of errors.
 */
export type FailureKind =
  | 'overflow'
  | 'exhausted'
  | 'unusable'
  | 'rate_limit'
  | 'auth'
  | 'not_found'
  | 'timeout'
  | 'server'
  | 'bad_request';

export const codeOfKind: Readonly<Record<FailureKind, ErrorCode>> = {
  overflow: 'CONTEXT_OVERFLOW',
  exhausted: 'PROVIDER_AUTH',
  unusable: 'PROVIDER_SERVER',
  rate_limit: 'PROVIDER_RATE_LIMIT',
  auth: 'PROVIDER_AUTH',
  not_found: 'PROVIDER_NOT_FOUND',
  timeout: 'PROVIDER_TIMEOUT',
  server: 'PROVIDER_SERVER',
  bad_request: 'PROVIDER_BAD_REQUEST',
};

interface Vocabulary {
  readonly kind: FailureKind;
  /** For codes and types, in the form of {@link plainName}. */
  readonly names: RegExp;
  /** For sentences. */
  readonly words: RegExp;
}

/** Alternatives of one expression, a line each. */
function anyOf(...alternatives: readonly string[]): RegExp {
  return new RegExp(alternatives.join('|'), 'i');
}

/**
 * The vocabulary of vendors, gateways and local servers; the first row that fits counts. Numbers are vendors' own codes: `code_…` in an
 * error (Z.ai, SiliconFlow), `base_resp_…` in MiniMax's `base_resp`.
 */
const vocabulary: readonly Vocabulary[] = [
  {
    kind: 'overflow',
    names: anyOf(
      'context_(length|window|size)',
      '(prompt|input)_(is_)?too_long',
      'max_prompt_tokens',
      'tokens_limit_reached',
      'request_too_large',
      '^code_1261$',
    ),
    words: anyOf(
      // OpenAI, vLLM, DeepSeek, OpenRouter, Mistral, SGLang.
      'max(imum)? (allowed )?context (length|window|size)',
      'reduce the length of the (messages|prompt|input)',
      'longer than the (model.?s )?(context|maximum (model|context)) length',
      // Anthropic, Bedrock, Ollama.
      '(prompt|input) (is |was )?too long',
      // Gemini.
      'input token count',
      // xAI, GitHub Copilot, GitHub Models.
      'maximum prompt length',
      'prompt token count',
      'request body too large for .{1,60} model',
      // llama.cpp, LM Studio, MiniMax, OpenAI's Responses API, Anthropic with max_tokens.
      '(exceed\\w*|(larger|longer|greater) than|beyond|fit in(to)?|overflow\\w*) (\\S+ ){0,5}context.?(length|window|size|limit)',
      'context.?(length|window|size|limit) (\\S+ ){0,3}(exceed|overflow)',
      'when context the overflows',
      // Moonshot, Z.ai, DashScope.
      'exceeded model token limit',
      'prompt exceeds max(imum)? length',
      'range of input length should be',
      // Cohere, Together, Text Generation Inference.
      'number of tokens in the prompt cannot exceed',
      'inputs.{0,3} tokens \\+ .{0,3}max_new_tokens',
      'must have less than \\d+ tokens',
    ),
  },
  {
    kind: 'exhausted',
    names: anyOf(
      'insufficient_(quota|balance|credit|fund|user_quota)',
      '(not_enough|out_of|no)_(balance|credit|fund)',
      'exceeded_current_quota',
      'billing_(hard_limit|not_active|error)|billing_disabled',
      'budget_exceeded|exceeded_budget|spend_?limit',
      'payment_required|invalid_payment',
      'credits?_(exhausted|depleted)|credit_balance',
      'arrear|free_tier_only|account_(suspended|deactivated)',
      '^code_1113$|^code_30001$|^base_resp_1008$',
    ),
    words: anyOf(
      'insufficient.{0,12}(balance|credit|fund|quota)',
      'balance.{0,20}(insufficient|too low|not enough|negative|exhausted)',
      '(not|n.t) (have )?enough (\\w+ )?(balance|credits?|funds)',
      '(out of|no (more |remaining )?|requires more|run out of|used all (of )?(your |its |the )?(available |included )?) ?(\\w+ )?credits',
      'credits? (\\w+ ){0,3}(depleted|exhausted|used up|expired)',
      'check your billing|billing (is )?(not active|disabled|hard limit)',
      '(spend(ing)?|budget|credit) (\\w+ )?(limit|cap)|budget has been exceeded',
      'monthly included credits|payment required|arrears|(please )?recharge|top.?up',
      'account (\\S+ ){0,3}(suspended|deactivated|in good standing)',
      'free tier (\\S+ ){0,4}exhausted',
      '余额不足|欠费|充值',
    ),
  },
  {
    kind: 'unusable',
    names: anyOf(
      'tool_(use|call)_failed|failed_generation',
      'json_validate_failed|output_parse_failed',
      '(malformed|unexpected)_(function|tool|model)|invalid_(function|tool)_call',
      'malformed_response|model_error_exception',
    ),
    words: anyOf(
      'failed to call a function|failed_generation',
      'tool call validation failed|not in request\\.tools',
      '(malformed|unparsable|invalid sequence as part of) (function|tool)',
      'model (produced|generated|wrote|returned) (an? )?(invalid|malformed)',
      'failed to (parse|generate) (\\w+ ){0,2}(tool|function|json)',
    ),
  },
  {
    kind: 'rate_limit',
    names: anyOf(
      'rate_?limit|too_?many|throttl|resource_exhausted|quota|concurren|slow_?down',
      '^code_13(02|03|04|08|10)$|^base_resp_(1002|1039|1041|2045|2056)$',
    ),
    words:
      /rate.?limit|too many (requests|tokens|concurrent)|throttl|quota|slow down|requests per (second|minute)|usage limit/i,
  },
  {
    kind: 'auth',
    names: anyOf(
      'authent|permission|api_?key|unauthori[sz]ed|forbidden|access_denied|billing|no_db_connection',
      '(invalid|expired|unrecognized_client).*token|^code_100[0-4]$|^base_resp_(1004|2049)$',
    ),
    words: anyOf(
      '(invalid|incorrect|wrong|missing|no|expired|revoked|unknown) (\\w+ ){0,2}(api.?key|credentials)',
      'api.?key (\\S+ ){0,2}(not valid|invalid|missing|expired|required|not found)',
      'unauthori[sz]ed|login fail|authentication (fail|error|required)|(permission|access) denied|not authori[sz]ed',
    ),
  },
  {
    kind: 'not_found',
    names: /not_?found|(unknown|no_such)_model|model_not_exist|^code_1211$/,
    words: /model .{0,80}(not found|does not exist|not exist)|no such model|unknown model|try pulling it/i,
  },
  {
    kind: 'timeout',
    names: /time_?out|timed_out|deadline_exceeded|^base_resp_1001$/,
    words: /timed? ?out|deadline exceeded/i,
  },
  {
    kind: 'server',
    names:
      /overload|unavailable|server_error|internal_(server|failure)|^internal$|bad_gateway|capacity|not_ready|^code_1305$/,
    words: anyOf(
      'overloaded|unavailable|internal (server )?error|(over|at|no) capacity|bad gateway|upstream',
      'busy|high (demand|load|traffic)|temporar|currently loading|try again',
    ),
  },
  {
    kind: 'bad_request',
    names: anyOf(
      'invalid_(request|argument|param|input|schema|value|prompt|image)|bad_?request|content_?(policy|filter)',
      'unsupported|validation|failed_precondition|unprocessable|^code_12(1[0-5]|20)$|^code_1301$|^base_resp_(2013|1026|1027)$',
    ),
    words: anyOf(
      '(invalid|unsupported|unrecognized|missing|bad) (request|argument|param|input|schema|value|field|message|role)',
      'does not support|not supported|must be (a|an|one|of|at|less|greater)|is required|content (policy|filter)',
    ),
  },
];

/** A code or type in lower case, its words separated by `_`: `ThrottlingException` becomes `throttling_exception`. */
export function plainName(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .toLowerCase();
}

export function kindOfNames(names: readonly string[]): FailureKind | undefined {
  return vocabulary.find((row) => names.some((name) => row.names.test(name)))?.kind;
}

/** Whether the names or the sentences say that it is of this kind. */
export function saysKind(kind: FailureKind, names: readonly string[], sentences: string): boolean {
  return vocabulary.some(
    (row) => row.kind === kind && (row.words.test(sentences) || names.some((name) => row.names.test(name))),
  );
}

export function kindOfWords(sentences: string): FailureKind | undefined {
  return vocabulary.find((row) => row.words.test(sentences))?.kind;
}

const failing =
  /\b(error|exception|fail(ed|ure|s|ing)?|denied|refused|forbidden|exceed(s|ed)|unable to|cannot|could not)\b/i;

/** Whether a plain text speaks of a failure. */
export function soundsFailed(text: string): boolean {
  return !isSuccess(text) && (failing.test(text) || kindOfWords(text) !== undefined);
}

/** Words that say that nothing failed. */
export function isSuccess(text: string): boolean {
  return /^\s*(ok(ay)?|success(ful(ly)?)?|succeeded|no[ _]?errors?|none|null|nil|false|normal|accepted|completed?|done|in_progress|queued|0|2\d\d)?[.!]?\s*$/i.test(
    text,
  );
}

/** A sentence that says only that something failed: what is nested in the error says more. */
export function isGeneral(sentence: string): boolean {
  if (!/\s/.test(sentence.trim())) return true;
  return /^\W*((the )?(upstream )?(provider|upstream|model|server|vendor|request|api|call|gateway)( returned| responded with| failed with| call| request| had)?( an?)? (errors?|failed|failure)|bad request|internal (server )?error|not found|unprocessable entity|too many requests|service unavailable|bad gateway|gateway time-?out|(an? )?(unknown |unexpected |internal |upstream )*errors?( occurred| happened)?|something went wrong|\w+ error:?|(http )?error( code| status)?:? \d{3}|http \d{3})[\W]*$/i.test(
    sentence,
  );
}

/** A limit that no waiting lifts: the request alone is larger than what may pass in its period. */
export const hopelessLimit = /request too large|must be reduced|reduce your (message|prompt|request)|limit: 0\b/i;

/** A limit of a day or longer. Unless the server says how long to wait, that is too long. */
export const farLimit = anyOf(
  'per.?day|\\b[rt]pd\\b|dail?y|per.?(week|month)|weekly|monthly|usage.?limit',
  'code_13(04|08|09|10)|base_resp_2056',
);
