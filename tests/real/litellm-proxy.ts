import { fileURLToPath } from 'node:url';
import { freePort } from '../stores/redis/free-port.ts';
import { realPart } from './real-part.ts';
import { RealProcess } from './real-process.ts';

const config = fileURLToPath(new URL('../../docker/litellm.yaml', import.meta.url));

export interface LiteLLMProxy {
  /** Ends in `/v1`. */
  readonly baseUrl: string;
  readonly masterKey: string;
  close(): Promise<void>;
}

export interface LiteLLMProxyOptions {
  /** Where the models of `openai/*` are, ending in `/v1`. */
  readonly openaiBaseUrl: string;
  readonly openaiKey: string;
}

/** The real proxy as docker-compose.yml starts it, with its `docker/litellm.yaml`, on a free port of the loopback interface. */
export async function startLiteLLM({ openaiBaseUrl, openaiKey }: LiteLLMProxyOptions): Promise<LiteLLMProxy> {
  const { bin = 'litellm' } = realPart('litellm');
  const port = await freePort();
  const masterKey = 'sk-of-the-proxy';
  const server = new RealProcess(bin, ['--config', config, '--port', String(port), '--host', '127.0.0.1'], {
    LITELLM_MASTER_KEY: masterKey,
    OPENAI_API_KEY: openaiKey,
    OPENAI_BASE_URL: openaiBaseUrl,
    ANTHROPIC_API_KEY: '',
    GEMINI_API_KEY: '',
    // Else it waits for a table of prices from the network.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  });
  const url = `http://127.0.0.1:${port}`;
  // Asks as the health check of docker-compose.yml does; right after it was installed its first start reads all of it.
  const isAlive = async () => (await fetch(`${url}/health/liveliness`)).ok;
  await server.ready('LiteLLM', isAlive);
  return { baseUrl: `${url}/v1`, masterKey, close: () => server.close() };
}
