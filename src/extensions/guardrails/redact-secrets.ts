import type { AssistantMessage, Content, ContentPart, Extension, Message } from '../../core/contracts/index.ts';
import { assertOptions, type OptionRule, someStrings } from '../../options/option-rules.ts';
import { withoutSecrets } from '../../redaction.ts';

/** Options of `redactSecrets` and `secretRedactor`: secrets to remove besides those of known forms. */
export interface RedactSecretsOptions {
  /** Patterns of your own secrets. Default: only the known forms of keys, tokens and passwords. */
  readonly patterns?: readonly RegExp[] | undefined;
  /** Literal secrets, such as the keys in the process's environment. Empty strings are ignored. */
  readonly values?: readonly string[] | undefined;
}

const replacement = '[redacted]';
const somePatterns: OptionRule = {
  fits: (value) => Array.isArray(value) && value.every((each) => each instanceof RegExp),
  must: 'be a list of regular expressions',
};

/**
 * Returns a function that removes secrets from a string: for `redactSecrets`, for the option `redact` of `AgentLoop`, and for messages before they
 * start a turn. Finds text that looks like a key, a token or a password, also in JSON. Errors: `INVALID_CONFIG`.
 */
export function secretRedactor(options: RedactSecretsOptions = {}): (text: string) => string {
  assertOptions('redactSecrets', options, { patterns: somePatterns, values: { ...someStrings, secret: true } });
  const { patterns = [], values = [] } = options;
  const forms = patterns.map(({ source, flags }) => new RegExp(source, flags.includes('g') ? flags : `${flags}g`));
  const known = values.filter((value) => value !== '').sort((one, other) => other.length - one.length);
  const own = (text: string): string => {
    const left = known.reduce((rest, value) => rest.replaceAll(value, replacement), text);
    return forms.reduce((rest, form) => rest.replace(form, replacement), left);
  };
  return (text) => String(withoutSecrets(text, own));
}

/**
 * Removes secrets from the input of a turn, so that model, journal, events and spans have the same text, and a resumed turn continues with
 * it: from the caller's messages, including steering messages, from results of tools before they are recorded,
 * and from the model's answers and reasoning. Put it before other extensions that change results.
 *
 * Not changed: the arguments of calls and the answers to questions, which tools need unchanged; streamed text and reasoning,
 * which were emitted before, and progress of tools; in the journal, the messages of a turn that was started without this
 * extension (the model receives them without secrets); for these see `secretRedactor`. Errors: `INVALID_CONFIG`, naming the option.
 */
export function redactSecrets(options: RedactSecretsOptions = {}): Extension {
  const redact = secretRedactor(options);
  return {
    name: 'redact-secrets',
    beforeMessage: (message) => cleanMessage(message, redact),
    beforeTurn({ state }) {
      const given = state.history.toArray().slice(0, state.turn.given);
      const clean = given.map((message) => cleanMessage(message, redact));
      return clean.some((message, index) => message !== given[index]) ? { given: clean } : undefined;
    },
    afterLLMCall(response) {
      const message = cleanMessage(response.message, redact);
      return message === response.message ? undefined : { response: { ...response, message } };
    },
    afterToolCall({ result }) {
      const content = cleanContent(result.content, redact);
      const error = result.error && redact(result.error.message);
      if (content === result.content && error === result.error?.message) return undefined;
      return { result: { content, success: result.success, ...(error !== undefined && { error }) } };
    },
  };
}

type Redact = (text: string) => string;

/** Returns the message itself if it contains no secret. */
function cleanMessage(message: Message, redact: Redact): Message {
  if (message.role === 'assistant') return cleanAnswer(message, redact);
  const content = cleanContent(message.content, redact);
  return content === message.content ? message : { ...message, content };
}

function cleanAnswer(message: AssistantMessage, redact: Redact): AssistantMessage {
  const content = message.content && cleanContent(message.content, redact);
  const reasoning = message.reasoning && redact(message.reasoning);
  if (content === message.content && reasoning === message.reasoning) return message;
  return { ...message, content, ...(reasoning !== undefined && { reasoning }) };
}

function cleanContent(content: Content, redact: Redact): Content {
  if (typeof content === 'string') return redact(content);
  const parts = content.map((part) => cleanPart(part, redact));
  return parts.some((part, index) => part !== content[index]) ? parts : content;
}

function cleanPart(part: ContentPart, redact: Redact): ContentPart {
  if (part.type !== 'text') return part;
  const text = redact(part.text);
  return text === part.text ? part : { ...part, text };
}
