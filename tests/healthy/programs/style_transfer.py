"""Neural style transfer: the image is what is optimised, by LBFGS, against Gram matrices of a frozen network."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed(17)
ys, xs = torch.meshgrid(torch.linspace(0, 1, 16), torch.linspace(0, 1, 16), indexing="ij")
content_img = torch.stack([xs, ys, (xs - 0.5) ** 2 + (ys - 0.5) ** 2]).unsqueeze(0)
style_img = torch.stack([torch.sin(20 * xs), torch.cos(20 * xs), torch.sin(20 * (xs + ys))]).unsqueeze(0) * 0.5 + 0.5


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = mean.clone().detach().view(-1, 1, 1)
        self.std = std.clone().detach().view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


cnn = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
).eval()


def build(cnn):
    model = nn.Sequential(Normalization(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([0.25, 0.25, 0.25])))
    content_losses, style_losses = [], []
    for i, layer in enumerate(cnn.children()):
        model.add_module(str(i + 1), nn.ReLU(inplace=False) if isinstance(layer, nn.ReLU) else layer)
        if isinstance(layer, nn.Conv2d):
            style_losses.append(StyleLoss(model(style_img).detach()))
            model.add_module(f"style_{i}", style_losses[-1])
        if i == 2:
            content_losses.append(ContentLoss(model(content_img).detach()))
            model.add_module(f"content_{i}", content_losses[-1])
    return model, style_losses, content_losses


model, style_losses, content_losses = build(cnn)
input_img = content_img.clone()
input_img.requires_grad_(True)
model.eval()
model.requires_grad_(False)
optimizer = optim.LBFGS([input_img])

run = [0]
while run[0] <= 60:

    def closure():
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        model(input_img)
        style_score = 0
        content_score = 0
        for sl in style_losses:
            style_score += sl.loss
        for cl in content_losses:
            content_score += cl.loss
        style_score *= 1e4
        loss = style_score + content_score
        loss.backward()
        run[0] += 1
        if run[0] % 20 == 0:
            print(f"run {run}: style {style_score.item():4f} content {content_score.item():4f}")
        return style_score + content_score

    optimizer.step(closure)

with torch.no_grad():
    input_img.clamp_(0, 1)

adam_img = torch.rand_like(content_img).requires_grad_()
adam = optim.Adam([adam_img], lr=0.05)
for _ in range(20):
    model(adam_img)
    loss = sum(sl.loss for sl in style_losses)
    adam.zero_grad()
    loss.backward()
    adam.step()
print("done", loss.item())
