import type { LLMProvider } from '../core/contracts/index.ts';
import type { ModelSettings, VendorSettings } from './model-settings.ts';

/** A provider that is ready to be asked. */
export interface ModelConnection {
  readonly provider: LLMProvider;
  /** For a person: the model's name and where it is. */
  readonly label: string;
  readonly baseUrl: string;
  close(): Promise<void>;
}

export interface StandInOptions {
  /** Milliseconds before each chunk of its answer, so that it can be watched. */
  readonly delayMs: number;
}

/**
 * Reaches the model of the settings; the stand-in is started in this process, on a free port of the loopback. Rejects with `MISSING_PACKAGE`
 * where the package of a vendor is not installed.
 */
export async function connectModel(settings: ModelSettings, standIn: StandInOptions): Promise<ModelConnection> {
  if (settings.kind === 'demo') return connectStandIn(standIn);
  if (settings.kind === 'vendor') return connectVendor(settings);
  const { baseUrl, model, apiKey } = settings;
  const LiteLLMProvider = await litellmProvider();
  const provider = new LiteLLMProvider({ baseUrl, model, ...(apiKey !== undefined && { apiKey }) });
  return { provider, label: `${model} at ${new URL(baseUrl).host}`, baseUrl, close: async () => {} };
}

async function connectVendor({ model, apiKey, baseUrl }: VendorSettings): Promise<ModelConnection> {
  const { createProvider } = await import('../providers/ai-sdk/index.ts');
  const provider = await createProvider(model, { apiKey, baseUrl });
  return { provider, label: model, baseUrl, close: async () => {} };
}

async function connectStandIn({ delayMs }: StandInOptions): Promise<ModelConnection> {
  const { startModelServer } = await import('../testing/model-server.ts');
  const LiteLLMProvider = await litellmProvider();
  const server = await startModelServer({ delayMs });
  return {
    provider: new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' }),
    label: 'stand-in model',
    baseUrl: server.baseUrl,
    close: () => server.close(),
  };
}

/** With the copy of `openai` that the build puts beside the command, so that a project needs none. */
async function litellmProvider() {
  const { LiteLLMProvider } = await import('../providers/litellm-provider.ts');
  const { useOpenAI } = await import('../providers/openai-wire/load-openai.ts');
  useOpenAI(() => import('openai'));
  return LiteLLMProvider;
}
