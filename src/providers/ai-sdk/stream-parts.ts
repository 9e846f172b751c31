import type { LanguageModelV3Content, LanguageModelV3StreamPart } from '@ai-sdk/provider';
import { isJsonObject } from '../openai-wire/json-object.ts';
import type { ModelServer } from '../openai-wire/model-server.ts';
import { sdkProtocolError } from './sdk-errors.ts';

/** How many characters a part adds to its answer. */
export function lengthOf(part: LanguageModelV3StreamPart | LanguageModelV3Content): number {
  switch (part.type) {
    case 'text-delta':
    case 'reasoning-delta':
    case 'tool-input-delta':
      return part.delta.length;
    case 'text':
    case 'reasoning':
      return part.text.length;
    case 'tool-call':
      return part.input.length;
    case 'file':
      return part.data.length;
    default:
      return 0;
  }
}

const otherAnswers: Readonly<Record<string, string>> = {
  'text/html': 'answered with a page of HTML',
  'application/json': 'answered with JSON where a stream was asked for',
};

/** Throws a coded error where the headers announce what is no stream: the AI SDK would read an empty one. */
export function assertEventStream(server: ModelServer, headers: Readonly<Record<string, string>> | undefined): void {
  const type = headers?.['content-type']?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const what = otherAnswers[type];
  if (what !== undefined) throw sdkProtocolError(server, what);
}

/** A warning of the AI SDK as a sentence. */
export function warningText(warning: unknown): string {
  if (!isJsonObject(warning)) return String(warning);
  const { type, feature, setting, details, message } = warning;
  if (typeof message === 'string') return message;
  const what = `${String(feature ?? setting ?? 'a setting')}: ${type === 'compatibility' ? 'used in a compatible form' : 'not supported'}`;
  return typeof details === 'string' ? `${what} (${details})` : what;
}
