/* Written by make_entropy_reference.py. Thresholds in bins. */
static const struct {
    unsigned zeros;
    double nvidia, ort_low, ort_high, ncnn, ppq;
} entropy_reference[] = {
    {15000, 896, -896, 897, 821.5, 896},  {0, 1024, -1024, 1024, 1014.5, 1024},
    {0, 300, -340, 341, 300.5, 384},      {0, 1024, -1024, 1024, 154.5, 1024},
    {0, 1024, -1011, 1012, 1022.5, 1024},
};
