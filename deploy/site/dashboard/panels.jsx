// Draw panels of the dashboard by Grafana's components, from what their queries found (draw.py writes window.DRAWN).
import {
  Registry, ThemeContext, applyFieldOverrides, createTheme, dateTime, getFieldDisplayValues, getTimeZone, toDataFrame,
} from '@grafana/data';
import {BigValue, PanelChrome, TimeSeries} from '@grafana/ui';
import {createRoot} from 'react-dom/client';

const theme = createTheme({colors: {mode: 'light'}});
const {panels, width, cell, row, gap, from, to} = window.DRAWN;
const identity = (value) => value;
const STANDARD = ['unit', 'min', 'max', 'decimals', 'displayName', 'color', 'thresholds', 'mappings', 'noValue'];
const CUSTOM = {
  drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, pointSize: 5, showPoints: 'auto',
  spanNulls: false, axisPlacement: 'auto', axisBorderShow: false, gradientMode: 'none', axisColorMode: 'text',
  axisLabel: '', axisCenteredZero: false, barAlignment: 0, barWidthFactor: 0.6, stacking: {mode: 'none', group: 'A'},
  scaleDistribution: {type: 'linear'}, hideFrom: {legend: false, tooltip: false, viz: false},
  thresholdsStyle: {mode: 'off'}, lineStyle: {fill: 'solid'}, insertNulls: false,
};
const COLOR = {stat: 'thresholds', timeseries: 'palette-classic'};
const property = (id, isCustom) => ({
  id, path: id, name: id, isCustom, process: identity, shouldApply: () => true, override: identity, editor: () => null,
});
const registry = new Registry(() => [
  ...STANDARD.map((id) => property(id, false)),
  ...Object.keys(CUSTOM).map((id) => ({...property(`custom.${id}`, true), path: id})),
]);
const timeRange = {from: dateTime(from), to: dateTime(to), raw: {from: dateTime(from), to: dateTime(to)}};

function prepared(panel, frames) {
  const custom = {...CUSTOM, ...panel.fieldConfig.defaults.custom};
  const defaults = {color: {mode: COLOR[panel.type]}, ...panel.fieldConfig.defaults, custom};
  return applyFieldOverrides({
    data: frames.map(toDataFrame), fieldConfig: {...panel.fieldConfig, defaults}, replaceVariables: identity,
    theme, fieldConfigRegistry: registry, timeZone: 'utc',
  });
}

function Stat({panel, frames, size}) {
  const {reduceOptions, ...options} = panel.options;
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions, replaceVariables: identity, theme, data: prepared(panel, frames),
    timeZone: 'utc',
  });
  const each = size.width / values.length;
  return (
    <div style={{display: 'flex'}}>
      {values.map((one, index) => (
        <BigValue key={index} value={one.display} theme={theme} width={each - (values.length > 1 ? 4 : 0)}
          height={size.height} count={values.length} justifyMode="auto"
          textMode={values.length > 1 ? 'value_and_name' : 'value'} {...options} />
      ))}
    </div>
  );
}

function Series({panel, frames, size}) {
  return (
    <TimeSeries frames={prepared(panel, frames)} structureRev={1} timeRange={timeRange} timeZone="utc"
      width={size.width} height={size.height} legend={panel.options.legend} options={panel.options} />
  );
}

const DRAWERS = {stat: Stat, timeseries: Series};

function Dashboard() {
  return (
    <ThemeContext.Provider value={theme}>
      {panels.map(({panel, frames, place}) => {
        const Drawer = DRAWERS[panel.type];
        const box = {width: place.w * cell - gap, height: place.h * row - gap};
        return (
          <div key={panel.id} style={{position: 'absolute', left: place.x * cell + gap, top: place.y * row + gap}}>
            <PanelChrome title={panel.title} width={box.width} height={box.height}>
              {(innerWidth, innerHeight) => (
                <Drawer panel={panel} frames={frames} size={{width: innerWidth, height: innerHeight}} />
              )}
            </PanelChrome>
          </div>
        );
      })}
    </ThemeContext.Provider>
  );
}

document.body.style.background = theme.colors.background.canvas;
document.body.style.fontFamily = theme.typography.fontFamily;
document.body.style.fontSize = '14px';
document.body.style.width = `${width}px`;
createRoot(document.getElementById('dashboard')).render(<Dashboard />);
