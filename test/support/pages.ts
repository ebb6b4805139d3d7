function page(title: string, body: string, script = ''): string {
  return `<!doctype html><html lang="en"><head><title>${title}</title></head><body>${body}<output id="log"></output>
<script>const log = (text) => { document.getElementById('log').textContent += text + ';'; };
${script}</script></body></html>`;
}

/** The test pages by name. What a visitor did shows in the page's `output`, so that a snapshot tells it. */
export const pages: Readonly<Record<string, string>> = {
  home: page('Home', '<h1>Welcome</h1><p>Plain text.</p><a href="/form">To the form</a>'),

  form: page(
    'Form',
    `<form id="form">
<label>Name <input name="name"></label>
<label>Note <textarea name="note"></textarea></label>
<label>Agree <input type="checkbox" name="agree"></label>
<label>Red <input type="radio" name="colour" value="red"></label>
<label>Level <input type="range" name="level" min="0" max="10" value="5"></label>
<button>Send</button></form>`,
    `document.getElementById('form').addEventListener('submit', (event) => {
      event.preventDefault();
      log('sent ' + new URLSearchParams(new FormData(event.target)));
    });`,
  ),

  select: page(
    'Select',
    `<label>One <select id="one"><option>apple</option><option>pear</option></select></label>
<label>Many <select id="many" multiple><option>x</option><option>y</option><option>z</option></select></label>`,
    `for (const id of ['one', 'many']) document.getElementById(id).addEventListener('change', (event) => {
      log(id + ' ' + [...event.target.selectedOptions].map((option) => option.value).join('+'));
    });`,
  ),

  hover: page(
    'Hover',
    '<button id="target">Hover me</button>',
    `document.getElementById('target').addEventListener('mouseenter', () => log('entered'));
    document.getElementById('target').addEventListener('dblclick', () => log('double'));`,
  ),

  keys: page(
    'Keys',
    '<label>Text <input id="text"></label>',
    `document.getElementById('text').addEventListener('keydown', (event) => log(event.key));`,
  ),

  drag: page(
    'Drag',
    '<div id="source" draggable="true" role="button" aria-label="Source">Source</div><div id="goal" role="button" aria-label="Goal" style="height:80px">Goal</div>',
    `const goal = document.getElementById('goal');
    document.getElementById('source').addEventListener('dragstart', (event) => event.dataTransfer.setData('text', 'load'));
    goal.addEventListener('dragover', (event) => event.preventDefault());
    goal.addEventListener('drop', (event) => { event.preventDefault(); log('dropped ' + event.dataTransfer.getData('text')); });`,
  ),

  dialog: page(
    'Dialog',
    '<button id="alert">Alert</button><button id="confirm">Confirm</button><button id="prompt">Prompt</button>',
    `document.getElementById('alert').onclick = () => { alert('Take care'); log('alerted'); };
    document.getElementById('confirm').onclick = () => log('confirmed ' + confirm('Sure?'));
    document.getElementById('prompt').onclick = () => log('prompted ' + prompt('Who?', 'me'));`,
  ),

  upload: page(
    'Upload',
    '<label>File <input type="file" id="file"></label>',
    `document.getElementById('file').addEventListener('change', async (event) => {
      const [file] = event.target.files;
      log('got ' + file.name + ' ' + await file.text());
    });`,
  ),

  console: page(
    'Console',
    '<p>Noisy</p>',
    `const cycle = { name: 'cycle' };
    cycle.self = cycle;
    console.log('plain', 1, null, undefined, cycle);
    console.warn('warned');
    console.error(new Error('logged error'));
    console.debug('debugged');
    console.table([{ a: 1 }]);
    for (let line = 0; line < 200; line += 1) console.log('line ' + line);
    setTimeout(() => { throw new Error('uncaught error'); });
    void Promise.reject(new Error('unhandled rejection'));
    log('done');`,
  ),

  network: page(
    'Network',
    '<p>Network</p>',
    `Promise.allSettled([fetch('/home'), fetch('/missing'), fetch('/slow?ms=50', { method: 'POST', body: 'x' })])
      .then((all) => log(all.map((one) => one.value?.status).join(',')));`,
  ),

  storage: page(
    'Storage',
    '<p>Storage</p>',
    `const visits = Number(localStorage.getItem('visits') ?? 0) + 1;
    localStorage.setItem('visits', String(visits));
    document.cookie = 'visits=' + visits + '; path=/';
    log('visits ' + visits + ' cookie ' + document.cookie);`,
  ),

  frame: page('Frame', '<iframe src="/form" title="inner" width="400" height="300"></iframe>'),

  popup: page(
    'Popup',
    '<a href="/home" target="_blank">New tab</a><button id="open">Open</button><a href="/download">Download</a>',
    `document.getElementById('open').onclick = () => { window.open('/home'); };`,
  ),

  title: page(
    'Title',
    '<button id="mark">Mark</button>',
    `document.getElementById('mark').onclick = () => { document.title = 'Marked'; };`,
  ),
};
