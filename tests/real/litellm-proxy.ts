import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from '../stores/redis/free-port.ts';
import { realPart } from './real-part.ts';

const config = fileURLToPath(new URL('../../docker/litellm.yaml', import.meta.url));

/** For the hook that starts it, in milliseconds. */
export const startTimeoutMs = 300_000;

/** A test run that is broken off leaves no server behind. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

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
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(bin, ['--config', config, '--port', String(port), '--host', '127.0.0.1'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH,
      HOME,
      LITELLM_MASTER_KEY: masterKey,
      OPENAI_API_KEY: openaiKey,
      OPENAI_BASE_URL: openaiBaseUrl,
      ANTHROPIC_API_KEY: '',
      GEMINI_API_KEY: '',
      // Else it waits for a table of prices from the network.
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    },
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  const log: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => log.push(String(text)));
  const close = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  const url = `http://127.0.0.1:${port}`;
  if (await isAlive(`${url}/health/liveliness`, child)) return { baseUrl: `${url}/v1`, masterKey, close };
  await close();
  throw new Error(`LiteLLM did not start:\n${log.join('')}`);
}

/** Asks as the health check of docker-compose.yml does, for four minutes at most: right after it was installed its first start reads all of it. */
async function isAlive(url: string, child: ChildProcess): Promise<boolean> {
  for (const until = Date.now() + 240_000; Date.now() < until && child.exitCode === null; ) {
    const answer = await fetch(url, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined);
    if (answer?.ok) return true;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return false;
}
