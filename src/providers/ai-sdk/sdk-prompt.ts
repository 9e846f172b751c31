import {
  AgentLoopError,
  type AssistantMessage,
  type LLMCallParams,
  type Message,
  type ResponseFormat,
  type ToolChoice,
  type ToolDefinition,
  type ToolMessage,
  textOf,
} from '../../core/contracts/index.ts';
import type { FittedRequest } from '../fit-request.ts';
import { assistantParts, toolOutput, userParts } from './prompt-parts.ts';
import type {
  SdkCallOptions,
  SdkFunctionTool,
  SdkMessage,
  SdkProviderTool,
  SdkToolChoice,
  VendorData,
} from './sdk-model.ts';
import { cacheMarksOf, settingOptions } from './sdk-settings.ts';
import { isVendorData, mergedData, type PartsOrigin, vendorPartsOf } from './vendor-parts.ts';

/** How one model wants to be asked. */
export interface CallForm extends PromptForm {
  /** Of a model, for every call; those of a call win over them. */
  readonly providerOptions: (model: string) => VendorData | undefined;
  /** Set where tools must say that they are not strict. */
  readonly strictTools: false | undefined;
  /** Tools that run at the vendor. */
  readonly providerTools: readonly SdkProviderTool[];
}

/** Who is asked. */
export interface CallTarget extends PartsOrigin {
  /** As the vendor names it. */
  readonly model: string;
}

/** What the AI SDK is asked for one model call: pure. Errors: `INVALID_INPUT` for messages, `INVALID_CONFIG` for settings it has no form for. */
export function sdkCallOptions(
  { params, strictFormat }: Pick<FittedRequest, 'params' | 'strictFormat'>,
  form: CallForm,
  target: CallTarget,
): SdkCallOptions {
  const { temperature, maxTokens, responseFormat, topP, stop, seed, cache } = params;
  const providerOptions = [
    settingOptions(params, strictFormat, target),
    form.providerOptions(target.model),
    optionsOfCall(params.providerOptions),
  ].reduce(mergedData);
  const cacheMarks = form.cacheMarks ?? (cache === true ? cacheMarksOf(target.provider) : undefined);
  return {
    prompt: sdkPrompt(params.messages, { ...form, cacheMarks }, target),
    ...toolMembers(params, form),
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
    ...(topP === undefined ? {} : { topP }),
    ...(stop === undefined ? {} : { stopSequences: [...stop] }),
    ...(seed === undefined ? {} : { seed }),
    ...(responseFormat === undefined ? {} : { responseFormat: sdkFormat(responseFormat) }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
  };
}

function toolMembers({ tools = [], toolChoice }: LLMCallParams, form: CallForm): Partial<SdkCallOptions> {
  const all = [...tools.map((tool) => sdkTool(tool, form)), ...form.providerTools];
  if (all.length === 0) return {};
  return {
    tools: all,
    ...(toolChoice === undefined ? {} : { toolChoice: sdkToolChoice(toolChoice) }),
  };
}

function sdkTool({ function: called }: ToolDefinition, { strictTools: strict }: CallForm): SdkFunctionTool {
  const { name, description, parameters } = called;
  const tool: SdkFunctionTool = { type: 'function', name, description, inputSchema: sdkSchema(parameters) };
  return strict === undefined ? tool : { ...tool, strict };
}

function sdkToolChoice(choice: ToolChoice): SdkToolChoice {
  return typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: choice.name };
}

function sdkFormat({ name, schema }: ResponseFormat): NonNullable<SdkCallOptions['responseFormat']> {
  return { type: 'json', name, schema: sdkSchema(schema) };
}

type SdkSchema = SdkFunctionTool['inputSchema'];

/** The AI SDK types schemas as draft-07, and passes on whatever is in them. */
function sdkSchema(schema: object): SdkSchema {
  return { ...schema };
}

function optionsOfCall(options: unknown): VendorData | undefined {
  if (options === undefined || isVendorData(options)) return options;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    'providerOptions for a model of the AI SDK need an object for each vendor, e.g. { anthropic: { thinking: { type: "adaptive" } } }.',
  );
}

/** How one model wants its prompt. */
interface PromptForm {
  readonly sendReasoning: boolean;
  /** Put on the instructions and on the ends of the history that are sent again. */
  readonly cacheMarks: VendorData | undefined;
}

/**
 * The history as the AI SDK's prompt: pure. System and developer messages, wherever they stand, become one in front; the results of a batch become one
 * message; an assistant message without anything in it is left out. `metadata.providerOptions` of a message goes with it.
 */
function sdkPrompt(messages: readonly Message[], form: PromptForm, origin: PartsOrigin): SdkMessage[] {
  const draft = new PromptDraft(form, origin);
  for (const message of messages) draft.add(message);
  return draft.prompt();
}

class PromptDraft {
  readonly #form: PromptForm;
  readonly #origin: PartsOrigin;
  readonly #names = new Map<string, string>();
  readonly #instructions: string[] = [];
  #instructionOptions: VendorData | undefined;
  readonly #messages: SdkMessage[] = [];
  #batch: ToolMessage[] = [];

  constructor(form: PromptForm, origin: PartsOrigin) {
    this.#form = form;
    this.#origin = origin;
  }

  add(message: Message): void {
    if (message.role === 'tool') {
      this.#batch.push(message);
      return;
    }
    this.#flushBatch();
    const options = optionsOf(message);
    switch (message.role) {
      case 'system':
      case 'developer':
        this.#instructions.push(textOf(message.content));
        this.#instructionOptions = options ?? this.#instructionOptions;
        return;
      case 'user':
        this.#push({ role: 'user', content: userParts(message.content, message.name) }, options);
        return;
      case 'assistant':
        this.#addAssistant(message, options);
    }
  }

  prompt(): SdkMessage[] {
    this.#flushBatch();
    this.#mark();
    const text = this.#instructions.filter((instruction) => instruction !== '').join('\n\n');
    if (text === '') return this.#messages;
    const options = mergedData(this.#form.cacheMarks, this.#instructionOptions);
    return [{ role: 'system', content: text, ...asMember(options) }, ...this.#messages];
  }

  #push(message: SdkMessage, options: VendorData | undefined): void {
    this.#messages.push(options === undefined ? message : { ...message, providerOptions: options });
  }

  #addAssistant(message: AssistantMessage, options: VendorData | undefined): void {
    const { sendReasoning } = this.#form;
    const calls = message.toolCalls ?? [];
    for (const call of calls) this.#names.set(call.id, call.function.name);
    const content = assistantParts(message, { kept: vendorPartsOf(message, this.#origin), sendReasoning });
    if (content.length > 0) this.#push({ role: 'assistant', content }, options);
  }

  #flushBatch(): void {
    const batch = this.#batch;
    if (batch.length === 0) return;
    this.#batch = [];
    this.#messages.push({ role: 'tool', content: batch.map((message) => this.#resultPart(message)) });
  }

  #resultPart(message: ToolMessage) {
    return {
      type: 'tool-result' as const,
      toolCallId: message.toolCallId,
      toolName: this.#nameOf(message),
      output: toolOutput(message),
      ...asMember(optionsOf(message)),
    };
  }

  #nameOf({ toolCallId }: ToolMessage): string {
    return this.#names.get(toolCallId) ?? toolCallId;
  }

  /** The last message, and the one that was the last of the request before: what a cache has is found, and what it lacks is kept. */
  #mark(): void {
    const { cacheMarks } = this.#form;
    if (cacheMarks === undefined) return;
    const last = this.#messages.length - 1;
    const before = this.#messages.findLastIndex(({ role }) => role === 'assistant') - 1;
    for (const index of new Set([last, before])) {
      const message = this.#messages[index];
      if (message === undefined) continue;
      const providerOptions = mergedData(cacheMarks, message.providerOptions);
      this.#messages[index] = { ...message, ...asMember(providerOptions) };
    }
  }
}

/** What the caller put beside a message for the vendor. Errors: `INVALID_INPUT` where it is of another form. */
function optionsOf({ metadata }: Message): VendorData | undefined {
  const options = metadata?.['providerOptions'];
  if (options === undefined || isVendorData(options)) return options;
  const form = 'an object with an object for each vendor, e.g. { anthropic: { cacheControl: { type: "ephemeral" } } }';
  throw new AgentLoopError('INVALID_INPUT', `metadata.providerOptions of a message must be ${form}.`);
}

function asMember(options: VendorData | undefined): { providerOptions?: VendorData } {
  return options === undefined ? {} : { providerOptions: options };
}
