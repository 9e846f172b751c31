import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Interruption } from 'millrace/internals';

function interrupted() {
  const source = new EventEmitter();
  const exits: number[] = [];
  const clock = { ms: 0 };
  const interruption = new Interruption(
    source,
    (code) => exits.push(code),
    () => clock.ms,
  );
  return { source, exits, clock, interruption };
}

describe('Interruption', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])('the first %s aborts and the second ends at once, both with %p', (name, exitCode) => {
    const { source, exits, clock, interruption } = interrupted();
    expect([interruption.signal.aborted, interruption.exitCode]).toEqual([false, undefined]);
    source.emit(name, name);
    expect([interruption.signal.aborted, interruption.exitCode]).toEqual([true, exitCode]);
    expect(exits).toEqual([]);
    clock.ms = 500;
    source.emit(name, name);
    expect(exits).toEqual([exitCode]);
  });

  it('R-43 an echo of the first signal, as npm forwards it, does not end the process; another signal does', () => {
    const { source, exits, clock } = interrupted();
    source.emit('SIGINT', 'SIGINT');
    source.emit('SIGINT', 'SIGINT');
    clock.ms = 499;
    source.emit('SIGINT', 'SIGINT');
    expect(exits).toEqual([]);
    source.emit('SIGTERM', 'SIGTERM');
    expect(exits).toEqual([143]);
  });

  it.each([
    ['SIGINT', [true, false]],
    ['SIGTERM', [false, true]],
  ])('%s is told from the other', (name, expected) => {
    const { source, interruption } = interrupted();
    source.emit(name, name);
    expect([interruption.byKey.aborted, interruption.byOrder.aborted]).toEqual(expected);
  });

  it('can be used again after one was dealt with', () => {
    const { source, exits, interruption } = interrupted();
    source.emit('SIGINT', 'SIGINT');
    interruption.reset();
    expect([interruption.signal.aborted, interruption.exitCode]).toEqual([false, undefined]);
    source.emit('SIGINT', 'SIGINT');
    expect(interruption.signal.aborted).toBe(true);
    expect(exits).toEqual([]);
  });

  it('leaves no listener behind', () => {
    const { source, interruption } = interrupted();
    interruption.close();
    expect([source.listenerCount('SIGINT'), source.listenerCount('SIGTERM')]).toEqual([0, 0]);
  });
});
