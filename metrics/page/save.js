// --- charts as files: SVG, PNG and CSV

import { make, setText } from './base.js';

// download has the browser save a file.
function download(name, blob) {
  const a = make('a', { href: URL.createObjectURL(blob), download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

// csv is a table of rows as text. A cell with a comma, a quote or a line break is quoted.
export function csv(rows) {
  const cell = v => /[",\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v ?? '');
  return rows.map(r => r.map(cell).join(',') + '\n').join('');
}

export const saveCSV = (name, rows) => download(name + '.csv', new Blob([csv(rows)], { type: 'text/csv' }));

// What decides how a part of a drawing looks, which a file cannot take from the page's styles.
const drawnStyles = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size', 'font-weight', 'font-family', 'text-anchor', 'paint-order'];

// standalone is a drawing of the page as a file's text, with its present colours and a title.
export function standalone(svg, title) {
  const copy = svg.cloneNode(true);
  const parts = [...copy.querySelectorAll('*')];
  [...svg.querySelectorAll('*')].forEach((e, i) => {
    const style = getComputedStyle(e);
    for (const name of drawnStyles) parts[i].setAttribute(name, style.getPropertyValue(name));
    parts[i].removeAttribute('class');
  });
  return frame(svg.clientWidth, svg.clientHeight, title, ...copy.childNodes);
}

// frame is an SVG file with a title above its content.
export function frame(width, height, title, ...content) {
  const style = getComputedStyle(document.body);
  const card = getComputedStyle(document.documentElement).getPropertyValue('--card');
  const box = { width: width + 24, height: height + 40 };
  const svg = make('svg:svg', { xmlns: 'http://www.w3.org/2000/svg', ...box, viewBox: `0 0 ${box.width} ${box.height}`, 'font-family': 'sans-serif', 'font-size': 12 },
    make('svg:rect', { ...box, fill: card }), make('svg:text', { x: 12, y: 22, 'font-size': 15, 'font-weight': 600, fill: style.color }, title),
    make('svg:g', { transform: 'translate(12 34)' }, ...content));
  return new XMLSerializer().serializeToString(svg);
}

// savePNG saves an SVG file's text as a picture with two pixels for each of the page's.
async function savePNG(name, text) {
  const image = new Image();
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
  await image.decode();
  const canvas = make('canvas', { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob(blob => download(name + '.png', blob), 'image/png');
}

// saveMenu is the menu by which a chart is saved. chart has the title, svg() the drawing as a file's text, and rows() its
// numbers as rows of a table.
export function saveMenu(title, svg, rows) {
  const name = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '');
  const menu = make('details', { class: 'menu' }, make('summary', { class: 'toggle', tabindex: -1, title: 'Save this chart (S)', 'aria-label': `Save ${title}` }, 'save'));
  const entry = (text, act) => {
    const b = make('button', { type: 'button' }, text);
    b.addEventListener('click', () => { menu.open = false; act(); });
    return b;
  };
  menu.append(make('div', {}, entry('PNG', () => savePNG(name, svg())), entry('SVG', () => download(name + '.svg', new Blob([svg()], { type: 'image/svg+xml' }))),
    entry('CSV', () => saveCSV(name, rows()))));
  menu.addEventListener('keydown', e => {
    if (e.key !== 'Escape') return;
    e.stopPropagation();
    menu.open = false;
    menu.closest('figure').querySelector('[role=slider]').focus();
  });
  menu.addEventListener('focusout', e => { if (!menu.contains(e.relatedTarget)) menu.open = false; });
  return menu;
}

// openSaveMenu opens the menu of a figure for those who use keys.
export function openSaveMenu(figure) {
  const menu = figure.querySelector('.menu');
  menu.open = true;
  menu.querySelector('button').focus();
}

// copyAddress puts the page's address on the clipboard, or shows it where the browser lets no page do so.
export async function copyAddress(says) {
  try {
    await navigator.clipboard.writeText(location.href);
    setText(says, 'Link copied.');
  } catch {
    setText(says, location.href);
  }
  setTimeout(() => setText(says, ''), 8000);
}
