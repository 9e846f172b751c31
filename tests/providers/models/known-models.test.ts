import { afterAll, describe, expect, it } from '@jest/globals';
import { agent, tool } from 'millrace';
import { createProvider, type VendorProvider } from 'millrace/ai-sdk';
import { knownModels, profileOf, vendors } from 'millrace/internals';
import { type ModelServer, modelServer, type ProfileName } from 'millrace/testing';
import { z } from 'zod';

/** The rules of each vendor's endpoint. */
const profiles: ReadonlyMap<string, ProfileName> = new Map(
  Object.entries(vendors).flatMap(([name, vendor]) => {
    const profile = vendor.wire === 'sdk' ? vendor.profile : 'options' in vendor ? vendor.options.profile : undefined;
    return profile === undefined ? [] : [[name, profile] as const];
  }),
);
const known = knownModels();
const withTools = known
  .filter(({ abilities }) => abilities?.tools)
  .map(({ name, endpoint = '', refuses = [] }) => ({ name, endpoint, refuses }));

const weather = tool({
  name: 'weather',
  description: 'Returns the weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `It rains in ${city}.`,
});
const settings = { temperature: 0.5, topP: 0.9, stop: ['END'], parallelToolCalls: false } as const;

interface Endpoint {
  readonly server: ModelServer;
  readonly provider: VendorProvider;
}
const endpoints = new Map<string, Promise<Endpoint>>();

/** A strict stand-in of a vendor, and a provider whose calls name their model. */
async function startEndpoint(vendor: string): Promise<Endpoint> {
  const steps = [{ toolCalls: [{ name: 'weather', arguments: { city: 'Oslo' } }] }, { text: 'It rains.' }];
  const server = await modelServer({
    strict: profiles.get(vendor),
    script: withTools.filter(({ endpoint }) => endpoint === vendor).flatMap(() => steps),
  });
  return { server, provider: await createProvider(`${vendor}:any`, { baseUrl: server.baseUrl, apiKey: 'k' }) };
}

function endpointOf(vendor: string): Promise<Endpoint> {
  const started = endpoints.get(vendor) ?? startEndpoint(vendor);
  endpoints.set(vendor, started);
  return started;
}

afterAll(async () => {
  for (const endpoint of endpoints.values()) await (await endpoint).server.close();
});

describe('the models that are known', () => {
  it.each(withTools)('M-25 $endpoint:$name runs a turn with a tool on the endpoint of its entry', async (model) => {
    const { provider } = await endpointOf(model.endpoint);
    const assistant = agent({ provider, model: model.name, tools: [weather], ...settings, retry: null });
    const left: string[] = [];
    const turn = assistant.startTurn('Does it rain in Oslo?');
    for await (const event of turn)
      if (event.kind === 'internal:request-fitted')
        left.push(...event.changes.filter(({ kind }) => kind === 'setting').map(({ at }) => at));
    expect((await turn.result()).text).toBe('It rains.');
    expect([...new Set(left)].sort()).toEqual(
      Object.keys(settings)
        .filter((name) => refusedOf(model, name))
        .sort(),
    );
  });

  it('M-25 have the rules of their endpoint', () => {
    for (const { name, endpoint = '', abilities } of known) {
      const { rules } = profileOf({ name: profiles.get(endpoint), model: name });
      expect([name, abilities?.reasonsByDefault]).toEqual([name, rules.reasonsByDefault]);
    }
  });
});

function refusedOf({ refuses }: { readonly refuses: readonly string[] }, name: string): boolean {
  return refuses.includes(name);
}
