import type { CallSettings } from './provider.ts';
import { shownValue } from './shown-value.ts';

/** What is wrong with a setting, and the cure; both in words that fit into a sentence. */
export type Flaw = readonly [what: string, cure: string];

/** The first flaw of settings of model calls, if there is one. */
export function settingsFlaw(settings: CallSettings): Flaw | undefined {
  const { model, temperature, maxTokens, toolChoice, responseFormat, providerOptions } = settings;
  if (model !== undefined && (typeof model !== 'string' || model === '')) {
    return [`model must be a name, not ${shownValue(model)}`, 'leave it out for the provider’s own'];
  }
  if (temperature !== undefined && !(Number.isFinite(temperature) && temperature >= 0)) {
    return [`temperature must be a number of at least 0, not ${shownValue(temperature)}`, 'most models take 0 to 2'];
  }
  if (maxTokens !== undefined && !(Number.isSafeInteger(maxTokens) && maxTokens >= 1)) {
    return [`maxTokens must be a whole number of at least 1, not ${shownValue(maxTokens)}`, 'or leave it out'];
  }
  if (toolChoice !== undefined && !isToolChoice(toolChoice)) {
    return [
      `toolChoice must be "auto", "none", "required" or { name }, not ${shownValue(toolChoice)}`,
      'leave it out to let the model decide',
    ];
  }
  if (responseFormat !== undefined && !isResponseFormat(responseFormat)) {
    return ['responseFormat must be { type: "json_schema", name, schema }', 'or leave it out'];
  }
  if (providerOptions !== undefined && !isObject(providerOptions)) {
    return [`providerOptions must be an object, not ${shownValue(providerOptions)}`, 'or leave it out'];
  }
  return undefined;
}

function isToolChoice(choice: unknown): boolean {
  if (choice === 'auto' || choice === 'none' || choice === 'required') return true;
  return isObject(choice) && typeof Reflect.get(choice, 'name') === 'string';
}

function isResponseFormat(format: unknown): boolean {
  if (!isObject(format) || Reflect.get(format, 'type') !== 'json_schema') return false;
  return typeof Reflect.get(format, 'name') === 'string' && isObject(Reflect.get(format, 'schema'));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
