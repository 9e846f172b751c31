import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { callsOfChildren, done, Owner, parentIn, startRecord } from 'millrace/internals';
import { childrenIn, takesAtOnce } from 'millrace/stores';

describe('takesAtOnce', () => {
  const before = { taskId: 'parent', epoch: 5 };

  it.each([
    ['a newer epoch', { taskId: 'parent', epoch: 6 }, true],
    ['the same epoch', before, false],
    ['another parent', { taskId: 'other', epoch: 1 }, false],
    ['none', undefined, false],
  ])('%s', (_, under, expected) => {
    expect(takesAtOnce('child', before, under)).toBe(expected);
    expect(takesAtOnce('child', undefined, under)).toBe(false);
  });

  it('T-02 says to an older owner who took the child turn, and with which epoch', () => {
    expect(() => takesAtOnce('child', before, { taskId: 'parent', epoch: 4 })).toThrow(
      expect.objectContaining({
        code: 'FENCED',
        taskId: 'child',
        retryable: false,
        message:
          'A newer owner of the parent turn "parent" (epoch 5, yours is 4) took the child turn "child"; stop the parent turn, its results are not recorded.',
      }),
    );
  });
});

describe('the links of a journal', () => {
  it('are found in what is left of a damaged one, each once, and only where they are task ids', () => {
    const links = [null, 7, 'text', {}, { child: null }, { child: 'a' }, { child: { taskId: 7 } }];
    const named = ['a', 'b', 'a', 'not an id', ''].map((taskId) => ({ child: { taskId } }));
    expect(childrenIn([...links, ...named])).toEqual(['a', 'b']);
    expect(parentIn([{ parent: { taskId: 'p' } }])).toBe('p');
    for (const records of [[], [undefined], [{}], [{ parent: { taskId: '{p}' } }], [{}, { parent: { taskId: 'p' } }]]) {
      expect(parentIn(records)).toBeUndefined();
    }
  });
});

describe('InMemoryStateStore with maxEndedTasks', () => {
  it('keeps a child turn that has ended as long as its parent turn, and counts roots alone', async () => {
    const store = new InMemoryStateStore({ maxEndedTasks: 1 });
    const create = (taskId: string, parent?: string): Owner => {
      store.create(taskId, startRecord(taskId, parent === undefined ? {} : { parent }));
      return new Owner(store, store.acquire(taskId, 'owner', 60_000));
    };
    const end = (taskId: string, parent?: string): Promise<void> => create(taskId, parent).append(done);
    const root = create('root');
    await root.append(...callsOfChildren(['child-1', 'child-2']));
    await end('child-1', 'root');
    await end('child-2', 'root');
    const kept = (): readonly string[] => store.list().map(({ taskId }) => taskId);
    expect(kept()).toEqual(['child-2', 'child-1', 'root']);
    await root.append(done);
    expect(kept()).toEqual(['child-2', 'child-1', 'root']);
    await end('next');
    expect(kept()).toEqual(['next']);
    await end('child-of-nobody', 'gone');
    expect(kept()).toEqual(['child-of-nobody']);
  });
});
