import { expect, it } from '@jest/globals';
import { ModelSilence } from '../../src/core/model-silence.ts';
import { fakeClock } from '../../src/testing/fake-clock.ts';

function watched(ms: number) {
  const clock = fakeClock();
  const silence = new ModelSilence();
  let noticed = 0;
  const watch = () => silence.watch(clock, ms, () => noticed++);
  watch();
  return { clock, silence, watch, noticed: () => noticed };
}

it('H-13 a call that says something now and then is not silent, however long it takes', () => {
  const { clock, silence, noticed } = watched(800);
  for (let chunk = 0; chunk < 20; chunk++) {
    clock.advance(700);
    silence.heard();
  }
  expect(noticed()).toBe(0);
  // From its last chunk on it has the whole time, and at most an eighth more.
  clock.advance(799);
  expect(noticed()).toBe(0);
  clock.advance(101);
  expect(noticed()).toBe(1);
  clock.advance(10_000);
  expect(noticed()).toBe(1);
});

it('H-13 the next call has the whole time, whatever the one before left of its own', () => {
  const { clock, silence, watch, noticed } = watched(800);
  clock.advance(700);
  watch();
  clock.advance(799);
  expect(noticed()).toBe(0);
  silence.end();
  clock.advance(10_000);
  expect(noticed()).toBe(0);
});
