import { Session } from 'node:inspector/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { charactersPassed } from '../../../characters-passed.ts';

/** Counts how often functions, branches and loops are run, exactly: what no clock and no busy machine changes. */
const coverage = new Session();

/** Of files that were loaded since the counting began, and the characters that the methods of texts pass by. */
async function stepsOf(act: () => void): Promise<number> {
  await coverage.post('Profiler.takePreciseCoverage');
  const passed = charactersPassed(act);
  const { result } = await coverage.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => url.includes('/src/extensions/structured-output/xml/'))
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
    .reduce((steps, { count }) => steps + count, passed);
}

const text = { type: 'string' };
const schema = {
  type: 'object',
  properties: {
    title: text,
    tags: { type: 'array', items: text },
    author: { type: 'object', properties: { name: text } },
    readers: { type: 'array', items: { type: 'object', properties: { name: text } } },
  },
};

describe('parseXml', () => {
  beforeAll(async () => {
    coverage.connect();
    await coverage.post('Profiler.enable');
    await coverage.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  });

  afterAll(() => coverage.disconnect());

  it.each([
    '<!--',
    '<![CDATA[',
    '<a b="',
    '<item>',
    '<title>',
    '<tags><item>',
    '<output>',
    '<output><author>',
    '<x ',
    '<',
    '<readers><item><name>',
  ])('takes steps in proportion to a text of many %j alone', async (piece) => {
    // biome-ignore lint/style/noRestrictedImports: counts what the functions of these files run, in no bundle.
    const { parseXml } = await import('../../../../src/extensions/structured-output/xml/parse-xml.ts');
    const steps = (times: number) => stepsOf(() => parseXml(`<output>${piece.repeat(times)}`, schema));
    const few = await steps(250);
    expect(few).toBeGreaterThan(250);
    expect(await steps(1_000)).toBeLessThan(few * 4.5);
  });
});
