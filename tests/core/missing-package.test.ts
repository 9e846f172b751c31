import { expect, it } from '@jest/globals';
import { missingPackage } from 'millrace/internals';

it('names the package and what to install, without the places that Node looked at', () => {
  const cause = new Error(
    "Cannot find package 'left-pad' imported from /srv/app/dist/x.js\nRequire stack:\n- /srv/app/dist/x.js",
  );
  expect(missingPackage('left-pad', cause)).toMatchObject({
    code: 'MISSING_PACKAGE',
    message: 'The package "left-pad" cannot be loaded; run `npm install left-pad`.',
    cause,
  });
});

it('says in one line why a package that is there cannot be loaded', () => {
  const { message } = missingPackage('left-pad', new Error('no Symbol here\nat line 1'), 'left-pad@1 right-pad');
  expect(message).toBe(
    'The package "left-pad" cannot be loaded (no Symbol here); run `npm install left-pad@1 right-pad`.',
  );
});
