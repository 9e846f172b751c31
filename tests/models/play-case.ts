import { agent, estimateTokens, fallback, InMemoryMessageStore, type LLMProvider, type Turn, tool } from 'millrace';
import { AISDKProvider, createProvider } from 'millrace/ai-sdk';
import { LiteLLMProvider } from 'millrace/litellm';
import { millrace } from '../e2e/command.ts';
import { startCaseServer } from './case-server.ts';
import type { CodedError, Played, PlayedTurn } from './differences.ts';
import type { CaseRequest, CaseTurn, ModelCase, Player, ProviderSpec, RanTool, SdkModel } from './model-case.ts';
import { written } from './notation.ts';
import { timeLapse } from './time-lapse.ts';

/** Plays a case: starts its servers, does what its user does, and returns what came of it once everything is closed. */
export async function playCase(played: ModelCase, player: Player): Promise<Played> {
  const lapse = timeLapse();
  const server = await startCaseServer(played, lapse.pause);
  const server2 = played.server2 && (await startCaseServer(played.server2, lapse.pause));
  const addresses = { server: server.url, ...(server2 && { server2: server2.url }) };
  const timed = hasPause(played) ? lapse.options : {};
  try {
    const done = await outcomeOf(doneBy(written(player, addresses), written(played.request, addresses), timed));
    const shown = done.value ?? { threw: done.error };
    return { ran: [], ...shown, seen: server.seen, seen2: server2?.seen ?? [] };
  } finally {
    await Promise.all([server.close(), server2?.close()]);
  }
}

/** Replaces the time of a provider and an agent. */
type TimeOptions = Partial<ReturnType<typeof timeLapse>['options']>;
type Done = Omit<Played, 'seen' | 'seen2' | 'ran'> & { readonly ran?: readonly RanTool[] };

async function doneBy(player: Player, request: CaseRequest, time: TimeOptions): Promise<Done> {
  if (request.estimateTokens !== undefined) return { tokens: estimateTokens(request.estimateTokens) };
  if (request.cli !== undefined) {
    const { exitCode, stdout, stderr } = await millrace(request.cli, request.env && { env: request.env });
    return { command: { exitCode, output: stdout + stderr } };
  }
  const providers = await providersOf(player, time);
  if (request.call === undefined) return playTurns(providers, request, time);
  const [provider] = providers;
  if (provider === undefined) throw new Error('a call needs a provider');
  return { response: await outcomeOf(provider.call(request.call)) };
}

/** One for each turn to choose from. */
async function providersOf(player: Player, time: TimeOptions): Promise<readonly LLMProvider[]> {
  if ('use' in player) return [await providerOf(player, time)];
  if ('inTurns' in player) return Promise.all(player.inTurns.map((spec) => providerOf(spec, time)));
  if (!('fallback' in player)) throw new Error(`${JSON.stringify(player)} has no provider`);
  const [first, ...others] = await Promise.all(player.fallback.map((spec) => providerOf(spec, time)));
  if (first === undefined) throw new Error('fallback lists no provider');
  return [fallback({ to: others })(first)];
}

async function providerOf(spec: ProviderSpec, time: TimeOptions): Promise<LLMProvider> {
  if (spec.use === 'LiteLLMProvider') return new LiteLLMProvider({ ...spec.options, ...time });
  if (spec.use === 'createProvider') return createProvider(spec.model, { ...spec.options, ...time });
  return new AISDKProvider({ ...spec.options, model: await sdkModelOf(spec.sdkModel) });
}

async function sdkModelOf({ package: name, make, settings, method, model }: SdkModel) {
  return (await import(name))[make](settings)[method](model);
}

/** One turn after the other; an agent for each provider. */
async function playTurns(providers: readonly LLMProvider[], request: CaseRequest, time: TimeOptions): Promise<Done> {
  const ran: RanTool[] = [];
  const steered = gate();
  const steer = request.turns?.find((turn) => turn.steer !== undefined)?.steer;
  const tools = (request.tools ?? []).map(({ returns, ...description }) =>
    tool({
      ...description,
      execute: async (args: unknown) => {
        ran.push({ tool: description.name, args });
        if (steer?.whileRuns === description.name) await steered.opened;
        return returns;
      },
    }),
  );
  const messageStore = request.sharedMessageStore ? { messageStore: new InMemoryMessageStore() } : {};
  const clock = time.clock && { clock: time.clock };
  const agents = providers.map((provider) =>
    agent({ name: 'a', provider, tools, ...clock, ...request.agent, ...messageStore }),
  );
  const turns: PlayedTurn[] = [];
  for (const wanted of request.turns ?? []) {
    const { provider = 0, input, contextId } = wanted;
    const turn = agents[provider]?.startTurn(input, contextId === undefined ? {} : { contextId });
    if (turn === undefined) throw new Error(`there is no provider ${provider}`);
    turns.push(await playTurn(turn, wanted.steer, steered.open));
  }
  return { turns, ran };
}

/** Reads a turn to its end, and steers it once a tool runs. */
async function playTurn(turn: Turn, steer: CaseTurn['steer'], steered: () => void): Promise<PlayedTurn> {
  const ended = outcomeOf(turn.result());
  let reasoning = '';
  const reading = (async () => {
    for await (const event of turn) {
      if (event.kind === 'internal:reasoning-delta') reasoning += event.text;
      if (event.kind !== 'internal:tool-start' || steer === undefined) continue;
      turn.steer({ role: 'user', content: steer.input });
      steered();
    }
  })();
  await outcomeOf(reading);
  return { ...(await ended), reasoning };
}

/** Closed until it is opened. */
function gate() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

type OutcomeOf<T> =
  | { readonly value: T; readonly error?: undefined }
  | { readonly value?: undefined; readonly error: CodedError };

async function outcomeOf<T>(promise: Promise<T>): Promise<OutcomeOf<T>> {
  try {
    return { value: await promise };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { error: codedError(error) };
  }
}

function codedError(error: Error & Partial<CodedError>): CodedError {
  const { code = error.name, message, retryable, retryAfterMs } = error;
  return {
    code,
    message,
    ...(retryable !== undefined && { retryable }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

function hasPause({ answers }: ModelCase): boolean {
  return answers.some(({ sse = [] }) => sse.some((piece) => typeof piece === 'object' && 'pauseMs' in piece));
}
