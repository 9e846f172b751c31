import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, InMemoryStateStore, type Message } from 'millrace';
import { followCommands } from 'millrace/internals';
import type { Signal } from 'millrace/operators';
import type { Command } from 'millrace/types';
import { NEVER, type Observable, of, Subject } from 'rxjs';
import { marbles } from './marbles.ts';
import { recordingLogger } from './recording-logger.ts';
import { turnDeps } from './turn-deps.ts';

const message: Message = { role: 'user', content: 'And pears?' };
const commands: Readonly<Record<string, Command>> = {
  p: { id: 'p', type: 'pause', reason: 'lunch' },
  s: { id: 's', type: 'steer', message },
  c: { id: 'c', type: 'cancel', reason: 'enough' },
};
const values: Readonly<Record<string, Signal>> = { t: { type: 'text', text: 'Two' } };

function storeWith(commands$: Observable<Command>) {
  const asked: string[] = [];
  const follow = (taskId: string) => {
    asked.push(taskId);
    return commands$;
  };
  return { asked, store: Object.assign(new InMemoryStateStore(), { commands: follow }) };
}

describe('followCommands', () => {
  it('passes the signals on and listens as long as the source runs', () => {
    for (const [source, leave, out, listened] of [
      ['-t-t|', undefined, '-t-t|', '^---!'],
      ['-t-#', undefined, '-t-#', '^--!'],
      ['-t---t', '---!', '-t', '^--!'],
    ] as const) {
      const asked = marbles(({ hot, expectObservable, expectSubscriptions }) => {
        const commands$ = hot<Command>('-----');
        const { store, asked } = storeWith(commands$);
        expectObservable(hot(source, values).pipe(followCommands(turnDeps(), store, new Set<string>())), leave).toBe(
          out,
          values,
        );
        expectSubscriptions(commands$.subscriptions).toBe(listened);
        return asked;
      });
      expect(asked).toEqual(['task']);
    }
  });

  it('aborts the turn on cancel, and puts pauses and messages into its inbox', () => {
    const deps = turnDeps();
    const { store } = storeWith(of(...Object.values(commands)));
    NEVER.pipe(followCommands(deps, store, new Set<string>()))
      .subscribe()
      .unsubscribe();
    expect(deps.inbox.pause).toEqual({ reason: 'lunch', commands: ['p'] });
    expect(deps.inbox.takeSteering()).toEqual([{ message, command: 's' }]);
    expect(deps.inbox.scope.reason).toMatchObject({ code: 'CANCELED', message: 'enough' });
  });

  it('names a pause and a cancel that give no reason', () => {
    const deps = turnDeps();
    const { store } = storeWith(of<Command[]>({ id: 'p', type: 'pause' }, { id: 'c', type: 'cancel' }));
    NEVER.pipe(followCommands(deps, store, new Set<string>()))
      .subscribe()
      .unsubscribe();
    expect(deps.inbox.pause?.reason).toBe('paused');
    expect(deps.inbox.scope.reason).toMatchObject({ message: 'canceled' });
  });

  it('passes over commands that an earlier owner of the turn followed', () => {
    const deps = turnDeps();
    const { store } = storeWith(of(...Object.values(commands)));
    NEVER.pipe(followCommands(deps, store, new Set(['p', 's', 'c'])))
      .subscribe()
      .unsubscribe();
    expect(deps.inbox.pause).toBeUndefined();
    expect(deps.inbox.hasSteering).toBe(false);
    expect(deps.inbox.scope.aborted).toBe(false);
  });

  it('logs the code of a store that cannot tell of commands, and lets the turn run', () => {
    const logger = recordingLogger();
    const broken$ = new Subject<Command>();
    const seen: Signal[] = [];
    const source$ = new Subject<Signal>();
    source$
      .pipe(followCommands(turnDeps({ logger }), storeWith(broken$).store, new Set<string>()))
      .subscribe((signal) => seen.push(signal));
    broken$.error(new AgentLoopError('UNAVAILABLE', 'down'));
    source$.next({ type: 'text', text: 'Two' });
    expect(seen).toHaveLength(1);
    expect(logger.lines).toEqual([['warn', 'commands cannot be read', { taskId: 'task', code: 'UNAVAILABLE' }]]);
  });
});
