import type {
  LanguageModelV3CallOptions,
  LanguageModelV3FunctionTool,
  LanguageModelV3ProviderTool,
  LanguageModelV3ToolChoice,
} from '@ai-sdk/provider';
import {
  AgentLoopError,
  type LLMCallParams,
  type ResponseFormat,
  type ToolChoice,
  type ToolDefinition,
} from '../../core/contracts/index.ts';
import { merged, type PromptForm, sdkPrompt } from './sdk-prompt.ts';
import { isVendorData, type VendorData } from './vendor-parts.ts';

/** How one model wants to be asked. */
export interface CallForm extends PromptForm {
  readonly toolChoice: boolean;
  /** For every call; those of a call win over them. */
  readonly providerOptions: VendorData | undefined;
  /** Tools that run at the vendor. */
  readonly providerTools: readonly LanguageModelV3ProviderTool[];
}

/** What the AI SDK is asked for one model call: pure. Errors: `INVALID_INPUT` for messages, `INVALID_CONFIG` for settings it has no form for. */
export function sdkCallOptions(params: LLMCallParams, form: CallForm): LanguageModelV3CallOptions {
  const { temperature, maxTokens, responseFormat } = params;
  const providerOptions = merged(form.providerOptions, optionsOf(params.providerOptions));
  return {
    prompt: sdkPrompt(params.messages, form),
    ...toolMembers(params, form),
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
    ...(responseFormat === undefined ? {} : { responseFormat: sdkFormat(responseFormat) }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
  };
}

function toolMembers({ tools = [], toolChoice }: LLMCallParams, form: CallForm): Partial<LanguageModelV3CallOptions> {
  if (!form.tools) return {};
  const all = [...tools.map(sdkTool), ...form.providerTools];
  if (all.length === 0) return {};
  return {
    tools: all,
    ...(toolChoice === undefined || !form.toolChoice ? {} : { toolChoice: sdkToolChoice(toolChoice) }),
  };
}

function sdkTool({ function: { name, description, parameters } }: ToolDefinition): LanguageModelV3FunctionTool {
  return { type: 'function', name, description, inputSchema: sdkSchema(parameters) };
}

function sdkToolChoice(choice: ToolChoice): LanguageModelV3ToolChoice {
  return typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: choice.name };
}

function sdkFormat({ name, schema }: ResponseFormat): NonNullable<LanguageModelV3CallOptions['responseFormat']> {
  return { type: 'json', name, schema: sdkSchema(schema) };
}

type SdkSchema = LanguageModelV3FunctionTool['inputSchema'];

/** The AI SDK types schemas as draft-07, and passes on whatever is in them. */
function sdkSchema(schema: object): SdkSchema {
  return { ...schema };
}

function optionsOf(options: unknown): VendorData | undefined {
  if (options === undefined || isVendorData(options)) return options;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    'providerOptions for a model of the AI SDK need an object for each vendor, e.g. { anthropic: { thinking: { type: "adaptive" } } }.',
  );
}
