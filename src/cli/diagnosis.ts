import { AgentLoopError, type ErrorCode, messageOf } from '../core/contracts/index.ts';
import { kindOfWords } from '../providers/failure-words.ts';
import { closestNames, ModelRegistry } from '../providers/models/model-registry.ts';

/** What was tried when a model failed. */
export interface Attempt {
  /** As the user named it: `anthropic:claude-…`, or a plain name. */
  readonly model: string;
  /** Where its key is looked for: `ANTHROPIC_API_KEY`. */
  readonly keySource: string;
  /** Whether the request offered tools. */
  readonly hasTools: boolean;
}

/** What is wrong and what to do about it, in one sentence. */
export interface Diagnosis {
  readonly code: ErrorCode;
  readonly sentence: string;
}

/** Makes a sentence of the failure of a model. The message of the error is the provider's, without secrets. */
export function diagnose(thrown: unknown, attempt: Attempt): Diagnosis {
  const code = AgentLoopError.isInstance(thrown) ? thrown.code : 'INTERNAL';
  const message = messageOf(thrown).trim().replace(/\.$/, '');
  const isExhausted = kindOfWords(message) === 'exhausted';
  const cure = isExhausted
    ? undefined
    : cures.find(({ codes, words }) => codes.includes(code) && (words === undefined || words.test(message)));
  return { code, sentence: cure === undefined ? message : `${message}; ${cure.toDo({ ...attempt, message })}` };
}

interface Cure {
  readonly codes: readonly ErrorCode[];
  /** Words of the message. Absent: any. */
  readonly words?: RegExp;
  readonly toDo: (attempt: Attempt & { readonly message: string }) => string;
}

const refused: readonly ErrorCode[] = [
  'PROVIDER_AUTH',
  'PROVIDER_BAD_REQUEST',
  'PROVIDER_RATE_LIMIT',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_FAILED',
];

/** The first that fits counts. A failure without a row, or of an empty account, says itself what to do. */
const cures: readonly Cure[] = [
  {
    codes: refused,
    words:
      /\b(region|country|territory|location)s?\b.{0,60}(not|un)\s?(support|available|allow)|not (support|available).{0,60}\b(region|country|territory|location)s?\b/i,
    toDo: () => 'the vendor does not serve this model from here: use another region, or a gateway in one',
  },
  {
    codes: ['PROVIDER_AUTH'],
    toDo: ({ keySource }) => `the key was refused: check that ${keySource} holds a key of this vendor that is valid`,
  },
  {
    codes: ['PROVIDER_BAD_REQUEST', 'PROVIDER_NOT_FOUND', 'PROVIDER_FAILED'],
    words: /effortWithTools|\/v1\/responses|(tool|function)s?\b.{0,80}not supported.{0,80}(endpoint|completions)/i,
    toDo: ({ model }) => `this endpoint takes no tools with this model: use --model openai:${nameOf(model)}`,
  },
  {
    codes: ['PROVIDER_NOT_FOUND', 'PROVIDER_BAD_REQUEST'],
    words:
      /model.{0,120}(not (exist|found)|does not exist|unknown|no access)|(unknown|invalid|no such) model|model_not_found/i,
    toDo: ({ model }) => `check the name of the model${closest(nameOf(model))}`,
  },
  {
    codes: ['PROVIDER_NOT_FOUND'],
    toDo: ({ model }) =>
      `check the address, which usually ends in /v1, and the name of the model${closest(nameOf(model))}`,
  },
  {
    codes: ['CONTEXT_OVERFLOW'],
    toDo: () => 'the context of the server is too small even for this: raise it (num_ctx, --ctx-size, --max-model-len)',
  },
  {
    codes: ['PROVIDER_BAD_REQUEST'],
    toDo: ({ hasTools }) =>
      hasTools
        ? 'if the server or the model has no tools, use another model, or start the server with tools'
        : 'check that the prefix of --model is that of the server',
  },
];

function nameOf(model: string): string {
  return model.slice(model.indexOf(':') + 1);
}

function closest(model: string): string {
  const names = closestNames(model, new ModelRegistry().names);
  return names.length === 0 ? '' : `; the closest known names are ${names.join(', ')}`;
}
